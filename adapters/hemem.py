"""HeMem: the knobs as compile-time macros of its `pebs.h`, in the units the macros have."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import NamedTuple

from tiertune.adapters.base import Adapter, AdapterError, Config, NativeKnob, Value, refuse_misspelt
from tiertune.nearest import nearest

GIB = 1 << 30


class Macro(NamedTuple):
    """A macro that stands for a knob: `per_unit` native units make one unit of the knob."""

    name: str
    unit: str
    per_unit: int = 1


MACROS: dict[str, Macro] = {
    "sampling_period": Macro("SAMPLE_PERIOD", "events/sample"),
    "write_sampling_period": Macro("WRITE_SAMPLE_PERIOD", "events/sample"),
    "read_hot_threshold": Macro("HOT_READ_THRESHOLD", "samples"),
    "write_hot_threshold": Macro("HOT_WRITE_THRESHOLD", "samples"),
    "cooling_threshold": Macro("PEBS_COOLING_THRESHOLD", "samples"),
    "cooling_pages": Macro("COOLING_PAGES", "pages"),
    "migration_period_ms": Macro("PEBS_KSWAPD_INTERVAL", "us", 1000),
    "max_migration_rate_gib": Macro("PEBS_KSWAPD_MIGRATE_RATE", "bytes/tick", GIB),
    "hot_ring_reqs_threshold": Macro("HOT_RING_REQS_THRESHOLD", "requests"),
    "cold_ring_reqs_threshold": Macro("COLD_RING_REQS_THRESHOLD", "requests"),
    "sample_cooling_interval": Macro("SAMPLE_COOLING_THRESHOLD", "samples"),
    "ring_capacity": Macro("CAPACITY", "requests"),
    "perf_pages": Macro("PERF_PAGES", "pages"),
}
KNOB_OF = {macro.name: knob for knob, macro in MACROS.items()}
FLAGS = {"cool_in_place": "COOL_IN_PLACE", "sample_based_cooling": "SAMPLE_BASED_COOLING"}
KNOB_OF_FLAG = {flag: knob for knob, flag in FLAGS.items()}
PERIOD, RATE, RATE_MODE = "migration_period_ms", "max_migration_rate_gib", "rate_mode"

DEFINE = re.compile(r"^#define\s+(\w+)\s+\(?(\d+)(?:UL)?\)?\s*(?://.*)?$")
SWITCH = re.compile(r"^#(define|undef)\s+(\w+)\s*(?://.*)?$")
MACRO = re.compile(r"^#(?:define|undef)\s+(\w+)")
REMARK = re.compile(r"^// tiertune: (\w+) = (.+)$")


class HememAdapter(Adapter):
    """Adapter of HeMem (SOSP'21) and of its public forks, which keep the macro names.

    The public code compares `PEBS_KSWAPD_MIGRATE_RATE` with the bytes moved in ONE tick, although its comment
    reads as a rate. A config in `rate_mode` per_second is therefore written as that rate times the tick; a
    spinning thread (migration_period_ms 0) has no tick, and the rate itself is written. Knobs without a macro
    become remarks, so that the block alone restores the whole config. A rate without a remark on `rate_mode`
    is what it is to the public code, bytes of one tick.
    """

    def native_knob(self, knob: str) -> NativeKnob | None:
        """The macro of `knob`, None for a constant or switch that the public header does not have."""
        if knob in FLAGS:
            return NativeKnob(FLAGS[knob], "")
        macro = MACROS.get(knob)
        return NativeKnob(macro.name, macro.unit) if macro else None

    def to_native(self, config: Mapping[str, Value]) -> dict[str, Value]:
        """Macros with whole numbers and switches, then the knobs without a macro under their own names."""
        resolved = self.resolve(config)
        native: dict[str, Value] = {}
        for knob, macro in MACROS.items():
            native[macro.name] = round(_number(knob, resolved[knob]) * macro.per_unit)
        native[MACROS[RATE].name] = round(
            _number(RATE, resolved[RATE])
            * GIB
            * _rate_scale(resolved[RATE_MODE], native[MACROS[PERIOD].name])
        )
        native.update(
            {FLAGS.get(knob, knob): value for knob, value in resolved.items() if knob not in MACROS}
        )
        return native

    def from_native(self, native: Mapping[str, Value]) -> Config:
        """The config that the macros stand for, to the macros' resolution (1 us, 1 byte)."""
        config: Config = {}
        for name, value in native.items():
            if name not in KNOB_OF:
                config[self._knob_without_number(name)] = value
                continue
            macro = MACROS[KNOB_OF[name]]
            number = _number(name, value)
            config[KNOB_OF[name]] = number if macro.per_unit == 1 else number / macro.per_unit
        if RATE in config:
            config.setdefault(RATE_MODE, "per_tick")
        if RATE in config and PERIOD in config:
            scale = _rate_scale(config[RATE_MODE], native[MACROS[PERIOD].name])
            config[RATE] = _number(RATE, config[RATE]) / scale
        for knob in {RATE, PERIOD} & set(config):
            config[knob] = self._inside(knob, _number(knob, config[knob]))
        return config

    def native_block(self, config: Mapping[str, Value]) -> str:
        """`#define` lines for `pebs.h`, each with its unit, then remarks for what has no macro there."""
        native = self.to_native(config)
        lines = ["// HeMem, pebs.h: replace these macros, then rebuild."]
        for name in KNOB_OF:
            lines.append(f"#define {name:<26}({native[name]}UL) // {MACROS[KNOB_OF[name]].unit}")
        lines += [f"#{'define' if native[flag] else 'undef'} {flag}" for flag in FLAGS.values()]
        remarks = {
            name: value for name, value in native.items() if name not in KNOB_OF and name not in KNOB_OF_FLAG
        }
        if remarks:
            lines.append("// No macro in the public header for the following; as tiertune ran them:")
        lines += [f"// tiertune: {name} = {json.dumps(value)}" for name, value in remarks.items()]
        return "\n".join(lines) + "\n"

    def from_block(self, text: str) -> Config:
        """Reads a block, or the plain numbers of a whole `pebs.h`; other macros are left alone."""
        native: dict[str, Value] = {}
        for line in text.splitlines():
            define, remark = DEFINE.match(line.strip()), REMARK.match(line.strip())
            switch = SWITCH.match(line.strip())
            if define and define[1] in KNOB_OF:
                native[define[1]] = int(define[2])
            elif switch and switch[2] in KNOB_OF_FLAG:
                native[switch[2]] = switch[1] == "define"
            elif remark:
                try:
                    native[remark[1]] = json.loads(remark[2])
                except json.JSONDecodeError as error:
                    raise AdapterError(f"'{remark[2]}' is no value for '{remark[1]}'") from error
            elif line.startswith("#define") and line.split()[1:2] and line.split()[1] in KNOB_OF:
                raise AdapterError(f"'{line.strip()}' does not give {line.split()[1]} a plain whole number")
            elif macro := MACRO.match(line.strip()):
                refuse_misspelt(macro[1], [*KNOB_OF, *KNOB_OF_FLAG])
        return self.from_native(native)

    def _knob_without_number(self, name: str) -> str:
        knob = KNOB_OF_FLAG.get(name, name)
        names = [declared.name for declared in self.info.knobs]
        if knob not in names:
            raise AdapterError(
                f"HeMem has no macro or knob '{name}'; did you mean '{nearest(name, [*KNOB_OF, *names])}'?"
            )
        return knob

    def _inside(self, knob: str, value: float) -> float:
        """`value` without the rounding of a whole-numbered macro that may have carried it over a bound."""
        declared = next(k for k in self.info.knobs if k.name == knob)
        if value in {special for special, _ in declared.special}:
            return value
        for bound, outside in ((declared.min, -1), (declared.max, 1)):
            if bound is not None and 0 < (value - bound) * outside <= 1e-4 * abs(bound):
                return float(bound)
        return value


def _number(name: str, value: Value) -> int | float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise AdapterError(f"{name} takes a number, not {value!r}")
    return value


def _rate_scale(rate_mode: Value, period_us: Value) -> float:
    """Bytes per tick over bytes per `rate_mode` unit."""
    seconds = _number("PEBS_KSWAPD_INTERVAL", period_us) / 1e6
    return seconds if rate_mode == "per_second" and seconds > 0 else 1.0
