"""Compositions such as `colloid+hemem`: a section for each wrapper, then the host's own block."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from tiertune.adapters.base import Adapter, AdapterError, Config, NativeKnob, Value
from tiertune.adapters.kernel import KernelAdapter
from tiertune.adapters.layers import Layer, layer_for
from tiertune.nearest import nearest

SECTION = re.compile(r"^==> (\S+) <==$")


class LayeredAdapter(Adapter):
    """Adapter of a host system with wrappers around it; the host's adapter does the host's part.

    Knobs of the host that decide nothing under a wrapper are no knobs of the composition; their lines are
    left out of its block, and ignored when a block is read.
    """

    def __init__(self, system: str, host: Adapter) -> None:
        """An adapter for the composition `system` around the system of `host`."""
        super().__init__(system)
        self.host = host
        *wrappers, base = self.system.split("+")
        self.layers: list[Layer] = [layer_for(wrapper, base) for wrapper in wrappers]
        if isinstance(host, KernelAdapter):
            host.mode_bits = sum(layer.mode_bits for layer in self.layers)
        self.known = {knob.name: knob for knob in self.info.knobs}
        idle = [knob.name for knob in host.info.knobs if knob.name not in self.known]
        self.idle = {native.name for native in map(host.native_knob, idle) if native} | set(idle)

    def _layer_of(self, knob: str) -> Layer | None:
        return next((layer for layer in self.layers if knob.startswith(layer.prefix)), None)

    def native_knob(self, knob: str) -> NativeKnob | None:
        """As the wrapper's port or the host calls it; None for what neither can set."""
        layer = self._layer_of(knob)
        if knob not in self.known:
            return None
        return layer.native_knob(knob) if layer else self.host.native_knob(knob)

    def to_native(self, config: Mapping[str, Value]) -> dict[str, Value]:
        """Settings of the wrappers, then those of the host; knobs without a native name keep their own."""
        native: dict[str, Value] = {}
        resolved = self.resolve(config)
        for knob, value in resolved.items():
            layer = self._layer_of(knob)
            if layer:
                name, setting = layer.to_native(knob, value)
                native[name] = setting
        of_host = self.host.to_native(self._of_host(resolved))
        native.update({name: value for name, value in of_host.items() if name not in self.idle})
        return native

    def from_native(self, native: Mapping[str, Value]) -> Config:
        """The config that the settings stand for."""
        config: Config = {}
        of_host: dict[str, Value] = {}
        names = {self._native_name(knob): knob for knob in self.known if self._layer_of(knob)}
        for name, value in native.items():
            knob = names.get(name)
            layer = self._layer_of(knob) if knob else None
            if knob and layer:
                config[knob] = layer.from_native(knob, value)
            else:
                of_host[name] = value
        config.update(self._known(self.host.from_native(of_host)))
        return config

    def native_block(self, config: Mapping[str, Value]) -> str:
        """A section for each wrapper, one `name = value` a line, then one with the host's block."""
        resolved = self.resolve(config)
        lines: list[str] = []
        for layer in self.layers:
            lines += [f"==> {layer.name} <==", f"# {layer.place}"]
            for knob, value in resolved.items():
                if self._layer_of(knob) is layer:
                    name, setting = layer.to_native(knob, value)
                    lines.append(f"{name} = {json.dumps(setting)}{layer.remark(knob)}")
        lines.append(f"==> {self.host.system} <==")
        block = self.host.native_block(self._of_host(resolved))
        return "\n".join([*lines, *(line for line in block.splitlines() if not self._is_idle(line))]) + "\n"

    def from_block(self, text: str) -> Config:
        """Reads `native_block` back, section by section."""
        sections: dict[str, list[str]] = {}
        section: list[str] = []
        for line in text.splitlines():
            started = SECTION.match(line)
            if started:
                section = sections.setdefault(started[1], [])
            else:
                section.append(line)
        config: Config = {}
        for name, lines in sections.items():
            layer = next((layer for layer in self.layers if layer.name == name), None)
            if layer:
                config.update(self._section(layer, lines))
            elif name == self.host.system:
                config.update(self._known(self.host.from_block("\n".join(lines))))
            else:
                parts = [*(layer.name for layer in self.layers), self.host.system]
                raise AdapterError(
                    f"{self.system} has no part '{name}'; did you mean '{nearest(name, parts)}'?"
                )
        return config

    def _section(self, layer: Layer, lines: list[str]) -> Config:
        native: dict[str, Value] = {}
        for line in lines:
            text = line.partition("#")[0].strip()
            if not text:
                continue
            name, equals, value = text.partition("=")
            if not equals:
                raise AdapterError(f"'{line.strip()}' is no `name = value` line")
            try:
                native[name.strip()] = json.loads(value)
            except json.JSONDecodeError as error:
                raise AdapterError(f"'{value.strip()}' is no value for '{name.strip()}'") from error
        names = {self._native_name(knob): knob for knob in self.known if self._layer_of(knob) is layer}
        for name in native:
            if name not in names:
                raise AdapterError(
                    f"{layer.name} has no setting '{name}'; did you mean '{nearest(name, names)}'?"
                )
        return {names[name]: layer.from_native(names[name], value) for name, value in native.items()}

    def _native_name(self, knob: str) -> str:
        native = self.native_knob(knob)
        return native.name if native else knob

    def _of_host(self, resolved: Mapping[str, Value]) -> Config:
        return {knob: value for knob, value in resolved.items() if not self._layer_of(knob)}

    def _known(self, config: Mapping[str, Value]) -> Config:
        return {knob: value for knob, value in config.items() if knob in self.known}

    def _is_idle(self, line: str) -> bool:
        return any(word in self.idle for word in re.findall(r"\w+", line))
