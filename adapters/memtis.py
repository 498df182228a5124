"""Memtis: knobs as sysfs `htmm` files, as constants of its kernel patch, and the cgroup files it needs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import NamedTuple

from tiertune.adapters.base import Adapter, AdapterError, Config, NativeKnob, Value, refuse_misspelt
from tiertune.adapters.script import whole, written
from tiertune.nearest import nearest

SYSFS = "/sys/kernel/mm/htmm"
KHUGEPAGED = "/sys/kernel/mm/transparent_hugepage/khugepaged"
NUMA = "/sys/kernel/debug/sched/numa_balancing"

ADAPTATION, RATIO, COOLING = "htmm_adaptation_period", "cooling_ratio", "htmm_cooling_period"
GAP, DEMOTION, PROMOTION = "promo_wm_gap_pct", "demo_wm_pct", "promo_wm_pct"


class File(NamedTuple):
    """A file in `folder` that stands for a knob; a `switch` holds a bool as one of two texts, off first.

    `says` has what the file says for the values that it takes, where that is something else.
    """

    folder: str
    unit: str = ""
    switch: tuple[str, str] | None = None
    says: tuple[tuple[str, str], ...] = ()

    def text(self, value: Value) -> str:
        """What is written to the file."""
        return self.switch[bool(value)] if self.switch else str(value)


FLAG = ("0", "1")
WORD = ("disabled", "enabled")
MODES = (("0", "NO MIG-0"), ("1", "BASELINE-1"), ("2", "HUGEPAGE_OPT-2"), ("3", "HUGEPAGE_OPT_V2"))
FILES: dict[str, File] = {
    "htmm_adaptation_period": File(SYSFS, "samples"),
    "htmm_cooling_period": File(SYSFS, "samples"),
    "htmm_promotion_period_in_ms": File(SYSFS, "ms"),
    "htmm_demotion_period_in_ms": File(SYSFS, "ms"),
    "htmm_thres_hot": File(SYSFS, "bin"),
    "ksampled_soft_cpu_quota": File(SYSFS, "permil"),
    "ksampled_min_sample_ratio": File(SYSFS, "%"),
    "ksampled_max_sample_ratio": File(SYSFS, "%"),
    "htmm_sample_period": File(SYSFS, "events/sample"),
    "htmm_inst_sample_period": File(SYSFS, "stores/sample"),
    "htmm_thres_split": File(SYSFS, "", FLAG),
    "htmm_split_period": File(SYSFS, "shift"),
    "htmm_gamma": File(SYSFS, "tenths"),
    "htmm_nowarm": File(SYSFS, "", FLAG),
    "htmm_util_weight": File(SYSFS),
    "htmm_mode": File(SYSFS, says=MODES),
    "htmm_cxl_mode": File(SYSFS, "", WORD),
    "htmm_skip_cooling": File(SYSFS, "", WORD),
    "htmm_thres_cooling_alloc": File(SYSFS, "4 KiB pages"),
    "scan_sleep_millisecs": File(KHUGEPAGED, "ms"),
    "pages_to_scan": File(KHUGEPAGED, "4 KiB pages"),
    "scan_size_mb": File(NUMA, "MiB"),
    "scan_period_min_ms": File(NUMA, "ms"),
}
RENAMED = {
    "khugepaged_sleep_ms": "scan_sleep_millisecs",
    "khugepaged_scan_pages": "pages_to_scan",
    "pf_scan_size_mb": "scan_size_mb",
    "pf_scan_period_ms": "scan_period_min_ms",
}
KNOB_OF = {native: knob for knob, native in RENAMED.items()}

REMARK = re.compile(r"^# tiertune: (\w+) = (.+)$")
SWITCH = "memory.htmm_enabled"
"""In a control group: whether Memtis looks after its memory; WORD has the values."""
CGROUP = (
    "# Per cgroup, as `tiertune run` models them: the fast tier's size is the limit of node 0.",
    f"#   echo enabled > /sys/fs/cgroup/<name>/{SWITCH}",
    "#   echo <bytes of the fast tier> > /sys/fs/cgroup/<name>/memory.max_at_node0",
)


def limit_of(node: int) -> str:
    """In a control group: most bytes that it may have on a node."""
    return f"memory.max_at_node{node}"


class MemtisAdapter(Adapter):
    """Adapter of Memtis (SOSP'23), and of FlexMem (ATC'24): many of its knobs, and no public code.

    Two relations of the engine are numbers of their own there: `htmm_cooling_period` is
    `htmm_adaptation_period` times `cooling_ratio`, and the promotion watermark is `demo_wm_pct` and
    `promo_wm_gap_pct` together. Hidden constants, which only a rebuilt kernel could change, are written as
    remarks under the engine's names.
    """

    @property
    def has_kernel(self) -> bool:
        """Whether there is a kernel that runs it: FlexMem's is not public."""
        return self.system == "memtis"

    def native_knob(self, knob: str) -> NativeKnob | None:
        """The sysfs file of `knob`, None for what the kernel has as a constant."""
        native = COOLING if knob == RATIO else RENAMED.get(knob, knob)
        if native not in FILES or knob not in self._names():
            return None
        return NativeKnob(native, FILES[native].unit)

    def to_native(self, config: Mapping[str, Value]) -> dict[str, Value]:
        """Files with the values they take (switches as bool), then constants under the engine's names."""
        resolved = self.resolve(config)
        native: dict[str, Value] = {}
        for knob, value in resolved.items():
            if knob == RATIO:
                native[COOLING] = round(_number(knob, value) * _number(knob, resolved[ADAPTATION]))
            elif knob == GAP:
                native[PROMOTION] = _number(knob, value) + _number(knob, resolved[DEMOTION])
            else:
                native[RENAMED.get(knob, knob)] = value
        return native

    def from_native(self, native: Mapping[str, Value]) -> Config:
        """The config behind `native`; a cooling period or promotion watermark needs its partner beside it."""
        config: Config = {}
        for name, value in native.items():
            knob = KNOB_OF.get(name, name)
            if name == COOLING and RATIO in self._names():
                config[RATIO] = self._ratio(value, native)
            elif name == PROMOTION and GAP in self._names():
                below = _number(DEMOTION, native.get(DEMOTION, self.resolve({})[DEMOTION]))
                config[GAP] = self._inside(GAP, _number(name, value) - below)
            elif knob in self._names() and name not in RENAMED and knob not in (RATIO, GAP):
                config[knob] = value
            else:
                near = nearest(name, [*FILES, *self._names()])
                raise AdapterError(f"{self.system} has no file or constant '{name}'; did you mean '{near}'?")
        return config

    def native_block(self, config: Mapping[str, Value]) -> str:
        """A shell script that writes the files, then remarks for what only a rebuilt kernel can change."""
        native = self.to_native(config)
        lines = [f"# {self.system}: run as root on its kernel."]
        for name, value in native.items():
            if name in FILES:
                file = FILES[name]
                unit = f" # {file.unit}" if file.unit else ""
                lines.append(f"echo {file.text(value)} > {file.folder}/{name}{unit}")
        lines += CGROUP
        lines.append("# Constants of the kernel patch; as tiertune ran them:")
        lines += [
            f"# tiertune: {name} = {json.dumps(value)}" for name, value in native.items() if name not in FILES
        ]
        return "\n".join(lines) + "\n"

    def from_block(self, text: str) -> Config:
        """Reads a block, or the lines of a run script that write these files; other lines are left alone.

        Memtis' own script writes some files in both branches of a condition: which of the two it took is not
        known here, so that two values of one file are refused.
        """
        native: dict[str, Value] = {}
        for line in text.splitlines():
            place, remark = written(line), REMARK.match(line.strip())
            folder, _, name = place[0].rpartition("/") if place else ("", "", "")
            if place and name in FILES and folder == FILES[name].folder:
                value = _read(name, place[1])
                if native.setdefault(name, value) != value:
                    raise AdapterError(f"{name} is written twice, with different values; keep one of the two")
            elif place:
                refuse_misspelt(name, [one for one, file in FILES.items() if file.folder == folder])
            elif remark:
                try:
                    native[remark[1]] = json.loads(remark[2])
                except json.JSONDecodeError as error:
                    raise AdapterError(f"'{remark[2]}' is no value for '{remark[1]}'") from error
        return self.from_native(native)

    def _names(self) -> set[str]:
        return {knob.name for knob in self.info.knobs}

    def _ratio(self, cooling: Value, native: Mapping[str, Value]) -> int:
        adaptation = _number(ADAPTATION, native.get(ADAPTATION, self.resolve({})[ADAPTATION]))
        ratio = _number(COOLING, cooling) / adaptation
        if abs(ratio - round(ratio)) > 1e-9:
            lower = int(ratio) * adaptation
            raise AdapterError(
                f"{COOLING} = {cooling} is no multiple of {ADAPTATION} = {adaptation}; "
                f"the multiple below is {lower}"
            )
        return round(ratio)

    def _inside(self, knob: str, value: float) -> float:
        """`value` without the rounding of a difference that may have carried it over a bound."""
        declared = next(k for k in self.info.knobs if k.name == knob)
        for bound, outside in ((declared.min, -1), (declared.max, 1)):
            if bound is not None and 0 < (value - bound) * outside <= 1e-9:
                return float(bound)
        return value


def _number(name: str, value: Value) -> int | float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise AdapterError(f"{name} takes a number, not {value!r}")
    return value


def _read(name: str, text: str) -> Value:
    switch, number = FILES[name].switch, whole(text)
    if switch == FLAG and number is not None:
        return number != 0  # the run script writes 1 and 2 for "on"
    if switch and text in switch:
        return text == switch[1]
    if switch or number is None:
        raise AdapterError(f"'{text}' is no value for {name}")
    return number
