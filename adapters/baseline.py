"""Systems without native settings, baselines mostly: knobs keep their names, one `name = value` a line."""

from __future__ import annotations

import json
from collections.abc import Mapping

from tiertune.adapters.base import Adapter, AdapterError, Config, NativeKnob, Value


class BaselineAdapter(Adapter):
    """Adapter of the built-in baselines, from `notier` to `mru`, and of systems whose original is not public.

    `adapters/registry.py` lists them.
    """

    def native_knob(self, knob: str) -> NativeKnob | None:
        """The knob itself: a baseline has no other home than the engine."""
        for declared in self.info.knobs:
            if declared.name == knob:
                return NativeKnob(declared.name, declared.unit)
        return None

    def to_native(self, config: Mapping[str, Value]) -> dict[str, Value]:
        """The resolved config, unchanged."""
        return self.resolve(config)

    def from_native(self, native: Mapping[str, Value]) -> Config:
        """The config, unchanged; raises `AdapterError` on an unknown name."""
        for name in native:
            if self.native_knob(name) is None:
                raise AdapterError(f"{self.system} has no setting '{name}'")
        return dict(native)

    def native_block(self, config: Mapping[str, Value]) -> str:
        """One `name = value` line a knob, or a comment that there is nothing to set."""
        lines = [f"{name} = {json.dumps(value)}" for name, value in self.to_native(config).items()]
        return (
            "\n".join([f"# {self.system}", *(lines or ["# nothing to set: this baseline has no knobs"])])
            + "\n"
        )

    def from_block(self, text: str) -> Config:
        """Reads `native_block` back."""
        native: Config = {}
        for line in text.splitlines():
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            name, equals, value = line.partition("=")
            if not equals:
                raise AdapterError(f"'{line.strip()}' is no `name = value` line")
            try:
                native[name.strip()] = json.loads(value)
            except json.JSONDecodeError as error:
                raise AdapterError(f"'{value.strip()}' is no value for '{name.strip()}'") from error
        return self.from_native(native)
