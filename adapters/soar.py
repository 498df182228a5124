"""Soar: settings of its profiling run as options of `perf`, those of its analysis as numbers of a script."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from tiertune.adapters.base import Adapter, AdapterError, Config, NativeKnob, Value
from tiertune.nearest import nearest

PERIOD = NativeKnob("perf record --count", "events/sample")
WINDOW = NativeKnob("perf stat --interval-print", "ms")
OPTIONS = {"pebs_period": PERIOD, "window_s": WINDOW}

OPTION = re.compile(r"^(perf \w+)\b.*(--[\w-]+)=(\d+)\s*$")
REMARK = re.compile(r"^# tiertune: (\w+) = (.+)$")
MS = 1000


class SoarAdapter(Adapter):
    """Adapter of the published Soar.

    It is a set of scripts: a shell script that profiles with `perf`, a Python script that scores objects by
    unnamed numbers in its code, and an allocation library with a table of placements that is edited by hand.
    Only the two options of `perf` are settings in the plain sense; the numbers are given under the knobs' own
    names, as remarks, from which the block alone restores the whole config. `perf` takes whole milliseconds:
    another window is a remark as well.
    """

    def native_knob(self, knob: str) -> NativeKnob | None:
        """The option of `perf`, None for what is a number in a script."""
        return OPTIONS.get(knob)

    def to_native(self, config: Mapping[str, Value]) -> dict[str, Value]:
        """The two options, then all other knobs under their own names."""
        resolved = self.resolve(config)
        window_ms = _number("window_s", resolved["window_s"]) * MS
        native: dict[str, Value] = {PERIOD.name: resolved["pebs_period"], WINDOW.name: round(window_ms)}
        if round(window_ms) / MS != resolved["window_s"]:
            native["window_s"] = resolved["window_s"]
        return native | {knob: value for knob, value in resolved.items() if knob not in OPTIONS}

    def from_native(self, native: Mapping[str, Value]) -> Config:
        """The config behind options and numbers; raises `AdapterError` on an unknown name."""
        knobs = [knob.name for knob in self.info.knobs]
        config: Config = {}
        for name, value in native.items():
            if name == PERIOD.name:
                config["pebs_period"] = value
            elif name == WINDOW.name:
                config.setdefault("window_s", _number(name, value) / MS)
            elif name in knobs:
                config[name] = value
            else:
                known = [*knobs, PERIOD.name, WINDOW.name]
                raise AdapterError(f"Soar has no setting '{name}'; did you mean '{nearest(name, known)}'?")
        return config

    def native_block(self, config: Mapping[str, Value]) -> str:
        """The two commands of the profiling run, then the numbers of the analysis."""
        native = self.to_native(config)
        lines = [
            "# Soar: profile a run in fast memory with allocations logged, then score and place objects."
        ]
        lines += [f"{option.name}={native[option.name]}" for option in OPTIONS.values()]
        lines.append("# Numbers of the scoring script and switches, as tiertune ran them:")
        names = [option.name for option in OPTIONS.values()]
        lines += [
            f"# tiertune: {name} = {json.dumps(value)}" for name, value in native.items() if name not in names
        ]
        return "\n".join(lines) + "\n"

    def from_block(self, text: str) -> Config:
        """Reads a block, or the two commands alone."""
        native: dict[str, Value] = {}
        for line in map(str.strip, text.splitlines()):
            option, remark = OPTION.match(line), REMARK.match(line)
            if option:
                native[f"{option[1]} {option[2]}"] = int(option[3])
            elif remark:
                try:
                    native[remark[1]] = json.loads(remark[2])
                except json.JSONDecodeError as error:
                    raise AdapterError(f"'{remark[2]}' is no value for '{remark[1]}'") from error
            elif line and not line.startswith("#"):
                raise AdapterError(f"'{line}' is neither `perf ... --option=NUMBER` nor a remark")
        return self.from_native(native)


def _number(name: str, value: Value) -> int | float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise AdapterError(f"{name} takes a number, not {value!r}")
    return value
