"""Systems that are Linux kernels: knobs as sysctls, debugfs and sysfs files, in the units that those have."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tiertune.adapters.base import Adapter, AdapterError, Config, NativeKnob, Value, refuse_misspelt
from tiertune.adapters.script import whole, written
from tiertune.nearest import nearest

BALANCING = "/sys/kernel/debug/sched/numa_balancing/"
DEMOTION = "/sys/kernel/mm/numa/demotion_enabled"
LRU_GEN = "/sys/kernel/mm/lru_gen/enabled"
"""Kernels from 6.1 on have it; those built without CONFIG_LRU_GEN have the classic lists only."""
MODE = "kernel.numa_balancing"
PERIOD_MIN, PERIOD_RATIO, PERIOD_MAX = "scan_period_min_ms", "scan_period_ratio", "scan_period_max_ms"

DEFINE = re.compile(r"^#define (\w+) \(?(?:msecs_to_jiffies\()?(\d+)\)*$")
REMARK = re.compile(r"^# tiertune: (\w+) = (.+)$")


@dataclass(frozen=True)
class Setting:
    """Where a knob is set: a sysctl, or a file when `name` is a path; `words` gives the native word of each
    value of a choice or switch."""

    name: str
    unit: str = ""
    words: Mapping[Value, int | str] = field(default_factory=dict)


@dataclass(frozen=True)
class Kernel:
    """One kernel: what it is, the settings of its knobs, and what must be set beside them."""

    title: str
    settings: Mapping[str, Setting]
    fixed: Mapping[str, int] = field(default_factory=dict)
    macros: Mapping[str, Setting] = field(default_factory=dict)
    """Constants at the top of a module's source, by knob."""


SCANNER: dict[str, Setting] = {
    PERIOD_MIN: Setting(BALANCING + PERIOD_MIN, "ms"),
    PERIOD_RATIO: Setting(BALANCING + PERIOD_MAX, "ms"),
    "scan_size_mb": Setting(BALANCING + "scan_size_mb", "MB"),
    "scan_delay_ms": Setting(BALANCING + "scan_delay_ms", "ms"),
}
SWITCH: Mapping[Value, int | str] = {True: "true", False: "false"}
DEMOTION_ENABLED = Setting(DEMOTION, words=SWITCH)

TPP: dict[str, Setting] = {
    "numa_balancing_mode": Setting(MODE),
    "demote_scale_factor": Setting("vm.demote_scale_factor", "1/10000"),
    **SCANNER,
    "demotion_enabled": DEMOTION_ENABLED,
}
DELAY = "WORK_DELAY"

KERNELS: dict[str, Kernel] = {
    "tpp": Kernel("TPP, a patched Linux", TPP),
    "nomad": Kernel(
        "Nomad, a patched Linux and the module async_promote",
        TPP,
        macros={
            "pf_lookback_dist": Setting("PG_FAULT_LOOKBACK_DIST", "entries"),
            "promote_queue_len": Setting("PROMOTE_QUEUE_LEN", "entries"),
            "work_delay_ms": Setting(DELAY, "ms"),
        },
    ),
    "nbt": Kernel(
        "Linux with NUMA balancing in memory-tiering mode",
        {
            **SCANNER,
            "hot_threshold_ms": Setting(BALANCING + "hot_threshold_ms", "ms"),
            "promote_rate_limit_mbps": Setting("kernel.numa_balancing_promote_rate_limit_MBps", "MB/s"),
            "watermark_scale_factor": Setting("vm.watermark_scale_factor", "1/10000"),
            "lru_gen": Setting(LRU_GEN, words={"classic": "0x0000", "mglru": "0x0007"}),
            "demotion_enabled": DEMOTION_ENABLED,
        },
        {MODE: 2},
    ),
    "autonuma": Kernel(
        "Linux with NUMA balancing, or the tiering-0.8 kernel",
        {
            "variant": Setting(MODE, words={"autonuma": 1, "tiering-0.8": 2}),
            **SCANNER,
            "hot_threshold_ms": Setting(BALANCING + "hot_threshold_ms", "ms"),
            "rate_limit_mbps": Setting("kernel.numa_balancing_rate_limit_mbps", "MB/s"),
        },
    ),
}


class KernelAdapter(Adapter):
    """Adapter of a system that is configured through sysctls and files of a running kernel.

    `scan_period_ratio` is written as the maximum that the kernel takes, the ratio times the minimum. Knobs
    that are constants of the kernel's code become remarks, so that the block alone restores the config.
    """

    mode_bits = 0
    """What wrappers add to kernel.numa_balancing. Blocks of before it was added are read as well."""

    @property
    def kernel(self) -> Kernel:
        """The kernel of this system."""
        return KERNELS[self.system]

    def native_knob(self, knob: str) -> NativeKnob | None:
        """The sysctl, file or macro of `knob`, None for a constant within the kernel's code."""
        setting = self._places().get(knob)
        return NativeKnob(setting.name, setting.unit) if setting else None

    def _places(self) -> dict[str, Setting]:
        return {**self.kernel.settings, **self.kernel.macros}

    def to_native(self, config: Mapping[str, Value]) -> dict[str, Value]:
        """Sysctls, files and macros by name, then the knobs without any under their own names."""
        resolved = self.resolve(config)
        native: dict[str, Value] = {}
        for knob, setting in self._places().items():
            value = resolved[knob]
            if knob == PERIOD_RATIO:
                value = _whole(knob, value) * _whole(PERIOD_MIN, resolved[PERIOD_MIN])
            native[setting.name] = setting.words.get(value, value) if setting.words else value
        if MODE in native:
            native[MODE] = _whole(MODE, native[MODE]) | self.mode_bits
        native.update({knob: value for knob, value in resolved.items() if knob not in self._places()})
        return native

    def from_native(self, native: Mapping[str, Value]) -> Config:
        """The config behind the settings; a maximum period without the minimum is taken over the default."""
        places = self._places()
        knob_of = {setting.name: knob for knob, setting in places.items()}
        declared = [knob.name for knob in self.info.knobs]
        config: Config = {}
        for name, value in native.items():
            knob = knob_of.get(name, name)
            if knob not in declared or (name not in knob_of and knob in places):
                near = nearest(name, [*knob_of, *declared])
                raise AdapterError(f"{self.system} has no setting '{name}'; did you mean '{near}'?")
            setting = places.get(knob)
            if name == MODE and isinstance(value, int):
                value &= ~self.mode_bits
            config[knob] = _value_of(setting, value) if setting and setting.words else value
        if PERIOD_RATIO in config:
            longest = _whole(PERIOD_MAX, config[PERIOD_RATIO])
            shortest = _whole(PERIOD_MIN, config.get(PERIOD_MIN, self.resolve({})[PERIOD_MIN]))
            config[PERIOD_RATIO] = self._ratio(longest, shortest)
        return config

    def native_block(self, config: Mapping[str, Value]) -> str:
        """Shell commands for root, then macros and remarks for what is in the code."""
        native = self.to_native(config)
        lines = [f"# {self.kernel.title}: as root, with debugfs mounted."]
        names = [setting.name for setting in self.kernel.settings.values()]
        fixed = [(n, v | self.mode_bits if n == MODE else v) for n, v in self.kernel.fixed.items()]
        commands = [*fixed, *((name, native[name]) for name in names)]
        lines += [
            f"echo {value} > {name}" if name.startswith("/") else f"sysctl -w {name}={value}"
            for name, value in commands
        ]
        macros = [setting.name for setting in self.kernel.macros.values()]
        if macros:
            lines.append("# At the top of the module's source, which is to be built again:")
        lines += [
            f"#define {name} (msecs_to_jiffies({native[name]}))"
            if name == DELAY
            else f"#define {name} {native[name]}"
            for name in macros
        ]
        remarks = {name: value for name, value in native.items() if name not in [*names, *macros]}
        if remarks:
            lines.append("# In the kernel's code, not settable; as tiertune ran it:")
        lines += [f"# tiertune: {name} = {json.dumps(value)}" for name, value in remarks.items()]
        return "\n".join(lines) + "\n"

    def from_block(self, text: str) -> Config:
        """Reads a block; settings of other parts of the kernel are left alone."""
        names = {setting.name for setting in self.kernel.settings.values()}
        macros = {setting.name for setting in self.kernel.macros.values()}
        native: dict[str, Value] = {}
        for line in map(str.strip, text.splitlines()):
            place, remark = written(line), REMARK.match(line)
            define = DEFINE.match(line)
            if place and place[0] in names:
                native[place[0]] = _read(place[1])
            elif define and define[1] in macros:
                native[define[1]] = int(define[2])
            elif remark:
                try:
                    native[remark[1]] = json.loads(remark[2])
                except json.JSONDecodeError as error:
                    raise AdapterError(f"'{remark[2]}' is no value for '{remark[1]}'") from error
            elif define:
                refuse_misspelt(define[1], macros)
            elif place:
                _refuse_misspelt_place(place[0], names)
            elif line and not line.startswith("#"):
                raise AdapterError(f"'{line}' is neither `sysctl -w NAME=VALUE` nor `echo VALUE > FILE`")
        return self.from_native(native)

    def _ratio(self, longest: int, shortest: int) -> int:
        """`longest` over `shortest`; raises `AdapterError` where that is none of the ratios that the knob
        takes, as the nearest would be another setting than what is asked for."""
        declared = next(knob for knob in self.info.knobs if knob.name == PERIOD_RATIO)
        low, high = int(declared.min or 1), int(declared.max or 1)
        unit = max(shortest, 1)
        ratio = min(max(round(longest / unit), low), high)
        if ratio * unit != longest:
            raise AdapterError(
                f"{PERIOD_MAX} = {longest} is not {low} to {high} times {PERIOD_MIN} = {shortest}, a whole"
                f" number of times; the nearest valid value is {ratio * unit}"
            )
        return ratio


def _refuse_misspelt_place(place: str, known: Iterable[str]) -> None:
    """As `refuse_misspelt` by the last word of a sysctl or file: with all of it, neighbours look alike."""
    folder, last = _split(place)
    refuse_misspelt(last, [own for above, own in map(_split, known) if above == folder])


def _split(place: str) -> tuple[str, str]:
    above, _, last = place.rpartition("/" if place.startswith("/") else ".")
    return above, last


def _whole(name: str, value: Value) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != int(value):
        raise AdapterError(f"{name} takes a whole number, not {value!r}")
    return int(value)


def _value_of(setting: Setting, word: Value) -> Value:
    if setting.name == LRU_GEN:
        word = _lru_gen(word)
    if setting.words == SWITCH:
        # Kernels show the words and take the numbers as well.
        word = {"1": "true", "0": "false"}.get(str(word), word)
    for value, native in setting.words.items():
        if str(native) == str(word):
            return value
    words = ", ".join(str(native) for native in setting.words.values())
    raise AdapterError(f"{setting.name} is one of {words}, not {word!r}")


def _lru_gen(word: Value) -> Value:
    """The word for what the file says or takes: the first bit is the switch, others a processor may lack."""
    try:
        on = str(word) == "y" or (str(word) != "n" and int(str(word), 0) & 1)
    except ValueError:
        return word
    return "0x0007" if on else "0x0000"


def _read(text: str) -> Value:
    number = whole(text)
    return text if number is None else number
