"""HMSDK: the knobs as files below DAMON's sysfs directory and as arguments of HMSDK's own generator."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import NamedTuple

from tiertune.adapters.base import Adapter, AdapterError, Config, NativeKnob, Value
from tiertune.nearest import nearest

ADMIN = "/sys/kernel/mm/damon/admin/kdamonds"
DEMOTES, PROMOTES, BOTH = ("0",), ("1",), ("0", "1")
"""The generator writes the demoting thread of the fast node first, then the promoting one."""
UNLIMITED = 2**64 - 1
GIB = 1 << 30
ATTRS = "contexts/0/monitoring_attrs"
SCHEME = "contexts/0/schemes/0"
PATTERN = f"{SCHEME}/access_pattern"
WATERMARKS = f"{SCHEME}/watermarks"


class Place(NamedTuple):
    """A file in the directories of some kdamonds; `per_unit` of its units make one unit of the knob."""

    kdamonds: tuple[str, ...]
    path: str
    unit: str
    per_unit: int = 1

    @property
    def name(self) -> str:
        """The path below the kdamonds' directory, `*` where all have the same."""
        return f"{'*' if self.kdamonds == BOTH else self.kdamonds[0]}/{self.path}"


PLACES: dict[str, Place] = {
    "sample_interval_us": Place(BOTH, f"{ATTRS}/intervals/sample_us", "us"),
    "aggr_ratio": Place(BOTH, f"{ATTRS}/intervals/aggr_us", "us"),
    "update_interval_us": Place(BOTH, f"{ATTRS}/intervals/update_us", "us"),
    "min_regions": Place(BOTH, f"{ATTRS}/nr_regions/min", "regions"),
    "max_regions_ratio": Place(BOTH, f"{ATTRS}/nr_regions/max", "regions"),
    "prom_accesses_min_percent": Place(PROMOTES, f"{PATTERN}/nr_accesses/min", "samples"),
    "prom_accesses_max_percent": Place(PROMOTES, f"{PATTERN}/nr_accesses/max", "samples"),
    "prom_age_min_s": Place(PROMOTES, f"{PATTERN}/age/min", "aggregations"),
    "prom_age_max_s": Place(PROMOTES, f"{PATTERN}/age/max", "aggregations"),
    "dem_accesses_ratio": Place(DEMOTES, f"{PATTERN}/nr_accesses/max", "samples"),
    "dem_age_min_s": Place(DEMOTES, f"{PATTERN}/age/min", "aggregations"),
    "prom_quota_ms": Place(PROMOTES, f"{SCHEME}/quotas/ms", "ms"),
    "dem_quota_ms": Place(DEMOTES, f"{SCHEME}/quotas/ms", "ms"),
    "prom_quota_gib": Place(PROMOTES, f"{SCHEME}/quotas/bytes", "bytes", GIB),
    "dem_quota_gib": Place(DEMOTES, f"{SCHEME}/quotas/bytes", "bytes", GIB),
    "quota_reset_interval_s": Place(BOTH, f"{SCHEME}/quotas/reset_interval_ms", "ms", 1000),
    "weight_size_permil": Place(BOTH, f"{SCHEME}/quotas/weights/sz_permil", "permil"),
    "weight_accesses_permil": Place(BOTH, f"{SCHEME}/quotas/weights/nr_accesses_permil", "permil"),
    "weight_age_permil": Place(BOTH, f"{SCHEME}/quotas/weights/age_permil", "permil"),
    "region_min_sz_bytes": Place(BOTH, f"{PATTERN}/sz/min", "bytes"),
    "region_max_sz_bytes": Place(BOTH, f"{PATTERN}/sz/max", "bytes"),
    "wmark_interval_ms": Place(BOTH, f"{WATERMARKS}/interval_us", "us", 1000),
    "wmark_high_permil": Place(BOTH, f"{WATERMARKS}/high", "permil"),
    "wmark_mid_ratio": Place(BOTH, f"{WATERMARKS}/mid", "permil"),
    "wmark_low_ratio": Place(BOTH, f"{WATERMARKS}/low", "permil"),
}
NO_LIMIT_AT_0 = {"prom_age_max_s", "region_max_sz_bytes"}
COARSE = {
    "max_regions_ratio",
    "prom_accesses_min_percent",
    "prom_accesses_max_percent",
    "prom_age_min_s",
    "prom_age_max_s",
    "dem_accesses_ratio",
    "dem_age_min_s",
    "wmark_mid_ratio",
    "wmark_low_ratio",
}
"""Knobs that the kernel holds in whole numbers of something else; what was meant is written beside."""
SIBLING = {
    "aggr_ratio": "sample_interval_us",
    "max_regions_ratio": "min_regions",
    "wmark_mid_ratio": "wmark_high_permil",
    "wmark_low_ratio": "wmark_mid_ratio",
}
"""Files that stand for a ratio to what another file holds."""
YOUNG = f"*/{SCHEME}/filters/1/type"
METRIC = f"*/{WATERMARKS}/metric"
MAX_SIZE, ONLY_CGROUP = "gen_migpol.py --region-max-size", "gen_migpol.py without --global"
OTHERS = {
    "young_filter": YOUNG,
    "wmark_metric": METRIC,
    "region_max_size_mib": MAX_SIZE,
    "memcg_filter": ONLY_CGROUP,
}
KNOB_OF = {place.name: knob for knob, place in PLACES.items()} | {name: k for k, name in OTHERS.items()}

ECHO = re.compile(rf"^echo (\S+) > {ADMIN}/(\d)/(\S+)$")
REMARK = re.compile(r"^# tiertune: (.+?) = (.+)$")


class HmsdkAdapter(Adapter):
    """Adapter of HMSDK (v4.0) on Linux DAMON's sysfs files.

    The kernel counts accesses in samples and ages in aggregations, both whole, and converts nothing when
    intervals change; percent and seconds are cut off to that as HMSDK's generator (through damo) does. What
    was meant stands beside as remarks, so that the block alone restores the whole config; without remarks
    the files are read as what they amount to. Byte quotas are written for the real machine, whatever
    `footprint_scale` the simulated one had.
    """

    def native_knob(self, knob: str) -> NativeKnob | None:
        """The file or argument of `knob`, None for a constant of the kernel or of the simulation."""
        if knob in PLACES:
            return NativeKnob(PLACES[knob].name, PLACES[knob].unit)
        if knob in OTHERS:
            return NativeKnob(OTHERS[knob], "MiB" if knob == "region_max_size_mib" else "")
        return None

    def to_native(self, config: Mapping[str, Value]) -> dict[str, Value]:
        """Files with whole numbers, arguments, then under their own names what no file holds exactly."""
        resolved = self.resolve(config)
        number = {knob: _number(knob, resolved[knob]) for knob in PLACES}
        samples, aggregation_us = _units(resolved)
        mid = round(number["wmark_high_permil"] * number["wmark_mid_ratio"])
        whole = {
            "aggr_ratio": number["sample_interval_us"] * number["aggr_ratio"],
            "max_regions_ratio": min(number["min_regions"] * number["max_regions_ratio"], 100_000),
            "prom_accesses_min_percent": number["prom_accesses_min_percent"] * samples / 100,
            "prom_accesses_max_percent": number["prom_accesses_max_percent"] * samples / 100,
            "prom_age_min_s": number["prom_age_min_s"] * 1e6 / aggregation_us,
            "prom_age_max_s": number["prom_age_max_s"] * 1e6 / aggregation_us,
            "dem_accesses_ratio": number["dem_accesses_ratio"]
            * number["prom_accesses_min_percent"]
            * samples
            / 100,
            "dem_age_min_s": number["dem_age_min_s"] * 1e6 / aggregation_us,
            "wmark_mid_ratio": mid,
            "wmark_low_ratio": round(mid * number["wmark_low_ratio"]),
        }
        native: dict[str, Value] = {}
        for knob, place in PLACES.items():
            if knob in NO_LIMIT_AT_0 and number[knob] == 0:
                native[place.name] = UNLIMITED
            elif knob in whole:
                native[place.name] = int(whole[knob])
            else:
                native[place.name] = round(number[knob] * place.per_unit)
        native.update({OTHERS.get(k, k): v for k, v in resolved.items() if k not in PLACES or k in COARSE})
        return native

    def from_native(self, native: Mapping[str, Value]) -> Config:
        """The config that files and arguments stand for; a knob under its own name has the last word."""
        declared = {knob.name: knob for knob in self.info.knobs}
        config: Config = {}
        files: dict[str, int | float] = {}
        for name, value in native.items():
            knob = KNOB_OF.get(name, name)
            if knob not in declared:
                near = nearest(name, [*KNOB_OF, *declared])
                raise AdapterError(f"HMSDK has no file, argument or knob '{name}'; did you mean '{near}'?")
            if name in KNOB_OF and knob in PLACES:
                files[knob] = _number(name, value)
            else:
                config[knob] = value
        for knob, value in self._meant(files, config).items():
            config.setdefault(knob, self._inside(knob, value))
        return config

    def _meant(self, files: Mapping[str, int | float], config: Config) -> dict[str, int | float]:
        """What the numbers in `files` amount to, in the knobs' units."""
        knobs = {knob.name: knob for knob in self.info.knobs}
        meant: dict[str, int | float] = {}
        for knob, value in files.items():
            per_unit = PLACES[knob].per_unit
            meant[knob] = value if per_unit == 1 else value / per_unit
        for ratio, sibling in SIBLING.items():
            if ratio in files and sibling not in files:
                raise AdapterError(f"{PLACES[ratio].name} says nothing without {PLACES[sibling].name}")
            if ratio in files:
                meant[ratio] = files[ratio] / max(files[sibling], 1)
                if knobs[ratio].type == "int":
                    meant[ratio] = round(meant[ratio])
        defaults = {name: knob.default for name, knob in knobs.items()}
        samples, aggregation_us = _units(defaults | meant | config)
        for knob in COARSE & set(files):
            if knob.endswith("_percent"):
                meant[knob] = files[knob] * 100 / samples
            elif knob.endswith("_s"):
                meant[knob] = files[knob] * aggregation_us / 1e6
        if "dem_accesses_ratio" in files:
            percent = _number("prom_accesses_min_percent", (defaults | meant)["prom_accesses_min_percent"])
            meant["dem_accesses_ratio"] = (
                files["dem_accesses_ratio"] * 100 / samples / percent if percent else 0
            )
        for knob in NO_LIMIT_AT_0 & set(files):
            if files[knob] >= UNLIMITED:
                meant[knob] = 0
        return meant

    def native_block(self, config: Mapping[str, Value]) -> str:
        """Shell lines to run as root once the generator's configuration is on, then remarks."""
        native = self.to_native(config)
        arguments = "-m 0 1" + ("" if native[ONLY_CGROUP] else " -g")
        if native[MAX_SIZE]:
            arguments += f" -s {native[MAX_SIZE]}m"
        lines = [
            f"# HMSDK: tools/gen_migpol.py {arguments} -o hmsdk.yaml; damo start hmsdk.yaml; then as root,",
            "# where 0 is the thread that demotes from the fast node and 1 the one that promotes:",
        ]
        for place in PLACES.values():
            lines += [f"echo {native[place.name]} > {ADMIN}/{n}/{place.path}" for n in place.kdamonds]
        if native[YOUNG]:
            lines += [f"echo young > {ADMIN}/{n}/{YOUNG[2:]}" for n in BOTH]
        else:
            lines += [f"echo 1 > {ADMIN}/{n}/{SCHEME}/filters/nr_filters" for n in BOTH]
        lines += [f"echo {native[METRIC]} > {ADMIN}/{n}/{METRIC.removeprefix('*/')}" for n in BOTH]
        lines += [f"echo commit > {ADMIN}/{n}/state" for n in BOTH]
        files = {METRIC, *(place.name for place in PLACES.values())}
        remarks = {name: value for name, value in native.items() if name not in files}
        lines.append("# What no file holds, or not exactly; as tiertune ran it:")
        lines += [f"# tiertune: {name} = {json.dumps(value)}" for name, value in remarks.items()]
        return "\n".join(lines) + "\n"

    def from_block(self, text: str) -> Config:
        """Reads a block, or the plain `echo VALUE > FILE` lines of any script; other files are left alone."""
        native: dict[str, Value] = {}
        for line in text.splitlines():
            echo, remark = ECHO.match(line.strip()), REMARK.match(line.strip())
            if remark:
                try:
                    native[remark[1]] = json.loads(remark[2])
                except json.JSONDecodeError as error:
                    raise AdapterError(f"'{remark[2]}' is no value for '{remark[1]}'") from error
            elif echo:
                self._read_file(echo[1], echo[2], echo[3], native)
        return self.from_native(native)

    def _read_file(self, value: str, kdamond: str, path: str, native: dict[str, Value]) -> None:
        if f"*/{path}" == YOUNG:
            native[YOUNG] = value == "young"
        if f"*/{path}" == METRIC:
            native[METRIC] = value
        for place in PLACES.values():
            if place.path != path or kdamond not in place.kdamonds:
                continue
            if not value.isdecimal():
                raise AdapterError(f"{kdamond}/{path} takes a whole number, not '{value}'")
            if native.setdefault(place.name, int(value)) != int(value):
                raise AdapterError(
                    f"{path} is {native[place.name]} for one kdamond and {value} for the other; "
                    "here both have the same"
                )

    def _inside(self, knob: str, value: float) -> int | float:
        """`value` within the declared range, which whole numbers may have carried it out of."""
        declared = next(k for k in self.info.knobs if k.name == knob)
        if value in {special for special, _ in declared.special}:
            return value
        if declared.min is not None:
            value = max(value, declared.min)
        if declared.max is not None:
            value = min(value, declared.max)
        return round(value) if declared.type == "int" else float(value)


def _units(config: Mapping[str, Value]) -> tuple[float, float]:
    """Samples per aggregation and microseconds of an aggregation that thresholds are converted with."""
    if config["thresholds"] == "kernel":
        return 20.0, 2e6
    ratio = _number("aggr_ratio", config["aggr_ratio"])
    return ratio, _number("sample_interval_us", config["sample_interval_us"]) * ratio


def _number(name: str, value: Value) -> int | float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise AdapterError(f"{name} takes a number, not {value!r}")
    return value
