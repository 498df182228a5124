"""PACT: the knobs as options of its command line, and as constants of its sources where it has no option."""

from __future__ import annotations

import itertools
import json
import re
import shlex
from collections.abc import Mapping

from tiertune.adapters.base import Adapter, AdapterError, Config, NativeKnob, Value
from tiertune.nearest import nearest

OPTIONS: dict[str, NativeKnob] = {
    "pebs_period": NativeKnob("--pebs-period", "events/sample"),
    "sampling_interval_ms": NativeKnob("--sampling-interval", "ms"),
    "adaptive_interval_ms": NativeKnob("--adaptive-interval", "ms"),
    "bin_count": NativeKnob("--bin-count", "bins"),
    "initial_bin_width": NativeKnob("--bin-width", "cycles"),
    "cooling_alpha": NativeKnob("--cooling-alpha", ""),
    "cooling_trigger_samples": NativeKnob("--cooling-trigger-samples", "samples"),
    "demotion_margin": NativeKnob("--demotion-margin", "pages"),
    "max_migrations_per_cycle": NativeKnob("--max-migrations-per-cycle", "pages"),
    "pac_pool_max": NativeKnob("--pac-pool-max", "pages"),
}
KNOB_OF = {option.name: knob for knob, option in OPTIONS.items()}

CONSTANTS: dict[str, NativeKnob] = {
    "t_scale": NativeKnob("PACT_BINNING_TH_SCALE", ""),
    "reservoir_size": NativeKnob("RESERVOIR_SIZE", "samples"),
    "cooling_interval_ms": NativeKnob("PACT_DEFAULT_COOLING_INTERVAL_MS", "ms"),
    "pac_update_ring": NativeKnob("PAC_UPDATE_RING_SIZE", "samples"),
    "k_fast": NativeKnob("k_constant_dram", "cycles"),
    "k_slow": NativeKnob("k_constant_cxl", "cycles"),
}
KNOB_OF_CONSTANT = {constant.name: knob for knob, constant in CONSTANTS.items()}

COMMAND = "pact --workload $PID"
DEFINE = re.compile(r"^#define\s+(\w+)\s+(\S+)\s*(?://.*)?$")
REMARK = re.compile(r"^# tiertune: (\w+) = (.+)$")
NO_COOLING = 1.0


class PactAdapter(Adapter):
    """Adapter of the published PACT, a daemon that attaches to a running process.

    Intervals are whole milliseconds there. Its `--cooling-alpha 1.0` means no cooling, `cooling_mode` off
    here; the factor that is not used then becomes a remark, as do knobs that it has neither an option nor
    a constant for, so that the block alone restores the whole config.
    """

    def native_knob(self, knob: str) -> NativeKnob | None:
        """The option of `knob`, or the constant; None for a switch that the published code does not have."""
        if knob in OPTIONS:
            return OPTIONS[knob]
        return CONSTANTS.get(knob)

    def to_native(self, config: Mapping[str, Value]) -> dict[str, Value]:
        """Options, then constants, then the knobs without either under their own names."""
        resolved = self.resolve(config)
        native: dict[str, Value] = {}
        for knob, option in OPTIONS.items():
            native[option.name] = resolved[knob]
        if resolved["cooling_mode"] == "off":
            native["cooling_alpha"] = native[OPTIONS["cooling_alpha"].name]
            native[OPTIONS["cooling_alpha"].name] = NO_COOLING
        for knob, constant in CONSTANTS.items():
            native[constant.name] = resolved[knob]
        rest = {knob: value for knob, value in resolved.items() if self.native_knob(knob) is None}
        return {**native, **rest}

    def from_native(self, native: Mapping[str, Value]) -> Config:
        """The config behind options, constants and remarks; raises `AdapterError` on an unknown name."""
        kinds = {knob.name: knob.type for knob in self.info.knobs}
        config: Config = {}
        for name, value in native.items():
            knob = KNOB_OF.get(name) or KNOB_OF_CONSTANT.get(name) or name
            if knob not in kinds:
                known = [*KNOB_OF, *KNOB_OF_CONSTANT, *kinds]
                raise AdapterError(f"PACT has no option '{name}'; did you mean '{nearest(name, known)}'?")
            if name != knob and kinds[knob] == "float":
                value = float(_number(name, value))
            config[knob] = value
        alpha = OPTIONS["cooling_alpha"].name
        if alpha in native and "cooling_alpha" in native:
            config["cooling_alpha"] = native["cooling_alpha"]
        return config

    def native_block(self, config: Mapping[str, Value]) -> str:
        """The command line, `#define` lines for a rebuild, and remarks for what has no name there."""
        native = self.to_native(config)
        options = " ".join(f"{name} {shlex.quote(str(native[name]))}" for name in KNOB_OF)
        lines = [
            "# PACT: attach it to the running workload.",
            f"{COMMAND} {options}",
            "# Constants of its sources, for another build:",
        ]
        lines += [f"#define {name} {native[name]}" for name in KNOB_OF_CONSTANT]
        remarks = {
            name: value
            for name, value in native.items()
            if name not in KNOB_OF and name not in KNOB_OF_CONSTANT
        }
        if remarks:
            lines.append("# Neither an option nor a constant there for the following; as tiertune ran them:")
        lines += [f"# tiertune: {name} = {json.dumps(value)}" for name, value in remarks.items()]
        return "\n".join(lines) + "\n"

    def from_block(self, text: str) -> Config:
        """Reads a block, or a command line of the published daemon alone."""
        native: dict[str, Value] = {}
        for line in map(str.strip, text.splitlines()):
            define, remark = DEFINE.match(line), REMARK.match(line)
            if define:
                native[define[1]] = _value(define[1], define[2])
            elif remark:
                native[remark[1]] = _value(remark[1], remark[2])
            elif line and not line.startswith("#"):
                native.update(_options(line))
        if native.get(OPTIONS["cooling_alpha"].name) == NO_COOLING:
            native.setdefault("cooling_mode", "off")
        return self.from_native(native)


def _options(line: str) -> dict[str, Value]:
    try:
        parts = shlex.split(line)
    except ValueError:
        raise AdapterError(f"'{line}' has a quote that does not end") from None
    words = [word for part in parts for word in part.split("=", 1)]
    found: dict[str, Value] = {}
    for name, value in itertools.pairwise(words):
        if name in KNOB_OF:
            found[name] = _value(name, value)
        elif name.startswith("--") and name != "--workload":
            raise AdapterError(
                f"PACT option '{name}' is not known; did you mean '{nearest(name, [*KNOB_OF])}'?"
            )
    return found


def _value(name: str, text: str) -> Value:
    try:
        value: Value = json.loads(text)
    except json.JSONDecodeError as error:
        raise AdapterError(f"'{text}' is no value for '{name}'") from error
    return value


def _number(name: str, value: Value) -> int | float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise AdapterError(f"{name} takes a number, not {value!r}")
    return value
