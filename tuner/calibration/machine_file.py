"""The machine file of a calibration: measured figures, and where every figure comes from."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tiertune.document import Document
from tiertune.files import InputError
from tiertune.machines.definition import Machine, Tier
from tiertune.mistakes import sentences_of
from tiertune.tuner.backend import HostUnfit
from tiertune.tuner.calibration.curve import with_tail
from tiertune.tuner.calibration.fit import Figure, TierFit, fit_node, median_figure, ratio_figure
from tiertune.tuner.calibration.measuring import of_kind

DECLARED_MOVE_NS = 12_000.0
"""What systems declare for a 4 KiB page in all (Soar/Alto, section 5.1); migration_cost is against it."""
CORES_LIMIT = 0.85
"""From this share of proportional scaling on, more threads would stream more: cores are the limit."""
ROUNDING = 4


@dataclass(frozen=True)
class Calibrated:
    """A calibrated machine with everything that was found on the way."""

    machine: Machine
    fits: dict[str, TierFit]
    figures: dict[str, Figure]

    def document(self) -> dict[str, Any]:
        """All figures, intervals and fits as plain data."""
        return {
            "machine": self.machine.name,
            "figures": {name: figure.document() for name, figure in self.figures.items()},
            "tiers": {name: _fit_document(fit) for name, fit in self.fits.items()},
            "notes": self.machine.notes,
        }


def calibrated(
    name: str, measured: Mapping[str, Any], slow_from: Machine | None, tail_from: Machine
) -> Calibrated:
    """The machine of measurements. `slow_from` gives the slow tier of a host with one node, `tail_from` the
    shape of curves past what was measured.

    Raises `HostUnfit` for a host with one node and no `slow_from`, and for measurements too disturbed to use.
    """
    nodes = measured["nodes"]
    if len(nodes) == 1 and slow_from is None:
        raise HostUnfit(
            "this host has one memory node and a machine needs two tiers: name the machine whose slow tier"
            " stands below it with --slow-from, such as --slow-from spr-cxl"
        )
    if len(nodes) > 1 and slow_from is not None:
        raise InputError(
            f"--slow-from {slow_from.name}: the host has {len(nodes)} memory nodes, which are its tiers;"
            " leave it out"
        )
    cpu, near = measured["cpu"], nodes[0]
    cores = near["processors"] or cpu["cores"]
    fits = {f"node{node['number']}": fit_node(node["samples"], not _local(node, near)) for node in nodes}
    ordered = sorted(fits, key=lambda key: fits[key].figures["latency_ns"].value)
    by_name = {f"node{node['number']}": node for node in nodes}
    tiers = [_tier(key, by_name[key], fits[key], tail_from) for key in ordered]
    notes = [_moves_note(node) for node in nodes if of_kind(node["samples"], "moves")]
    if len(nodes) == 1 and slow_from is not None:
        slow = slow_from.tiers[-1]
        said = {
            key: f"taken from machine {slow_from.name}, not measured here: {text}"
            for key, text in slow.sources.items()
        }
        tiers.append(slow.model_copy(update={"sources": said}).model_dump(mode="json", exclude_unset=True))
        if slow.latency_ns < tiers[0]["latency_ns"]:
            raise InputError(
                f"--slow-from {slow_from.name}: its slow tier answers in {slow.latency_ns:g} ns, the memory"
                f" of this host in {tiers[0]['latency_ns']:g}; name one that is slower, such as clx-optane"
            )
    samples = near["samples"]
    hit = median_figure([one["latency_ns"] for one in of_kind(samples, "loaded", "cache")], "ns")
    figures = {
        "llc_hit_ns": hit,
        "fill_buffers": fits[f"node{near['number']}"].figures["fill_buffers"],
        "parallelism.random": ratio_figure(samples, "chase", "read"),
        "parallelism.update": ratio_figure(samples, "chase", "update"),
        "parallelism.locked": ratio_figure(samples, "chase", "locked"),
    }
    cost = _migration_cost(nodes)
    told = measured["environment"]["host"]
    document: dict[str, Any] = {
        "name": name,
        "description": f"calibrated: {cpu['name']}, {cores} processors, {len(nodes)} memory nodes",
        "source": f"tiertune calibrate on a host with {told['system']}",
        "cores": cores,
        "clock_ghz": cpu["clock_ghz"],
        "llc_bytes": cpu["llc_bytes"],
        "llc_hit_ns": _rounded(hit.value),
        "fill_buffers": _rounded(figures["fill_buffers"].value),
        "sample_assist_ns": 250,
        "parallelism": {
            key: _rounded(min(max(figures[f"parallelism.{key}"].value, 1.0), 64.0))
            for key in ("random", "update", "locked")
        },
        **({"migration_cost": _rounded(cost.value)} if cost else {}),
        "sources": {
            "cores": f"processors of node{near['number']} that the measuring process could use",
            "clock_ghz": "as the operating system tells it, the highest",
            "llc_bytes": "as the operating system tells it, of one socket",
            "llc_hit_ns": f"measured: dependent reads of what the last-level cache holds, {hit.said()}",
            "fill_buffers": _fill_source(fits[f"node{near['number']}"]),
            "sample_assist_ns": "not measured: Akiyama and Hirofuchi give 200 to 300 ns per hardware sample",
        },
        "tiers": tiers,
        "notes": [
            *notes,
            _overlap_note(figures),
        ],
    }
    if cost:
        figures["migration_cost"] = cost
        document["notes"].append(f"a move of a 4 KiB page takes {cost.said()} what systems declare")
    return Calibrated(Machine.model_validate(document), fits, figures)


def with_curve(base: Machine, tier_number: int, fitted: Tier, name: str) -> Machine:
    """`base` under another name with a tier replaced by one fitted to a published curve."""
    document = base.model_dump(mode="json", exclude_unset=True)
    document["name"] = name
    document["description"] = f"{base.description}; curve of tier {tier_number} imported"
    document["tiers"][tier_number] = fitted.model_dump(mode="json", exclude_unset=True)
    try:
        return Machine.model_validate(document)
    except ValidationError as error:
        said = sentences_of(error, Machine, name, Document(document, {}))
        raise InputError(*(re.sub(rf"^{re.escape(name)}:1: ", f"{name}: ", text) for text in said)) from error


def machine_text(machine: Machine) -> str:
    """The machine as a file; keys in the order of their declaration."""
    import yaml

    document = machine.model_dump(mode="json", exclude_unset=True)
    for tier in document["tiers"]:
        tier["curve"] = [[_rounded(place), _rounded(multiple)] for place, multiple in tier["curve"]]
    return yaml.dump(document, sort_keys=False, allow_unicode=True, width=105, Dumper=_dumper())


def check_target(path: Path, force: bool) -> None:
    """Raises `InputError` where a file would be overwritten without having been asked for."""
    if path.exists() and not force:
        raise InputError(
            f"{path}: is there already; name another file with --out, or replace it with --force"
        )


def _dumper() -> Any:
    import yaml

    class Dumper(yaml.SafeDumper):
        """Writes points of curves on one line each."""

    def sequence(dumper: yaml.SafeDumper, values: list[Any]) -> yaml.Node:
        flat = bool(values) and all(isinstance(value, (int, float)) for value in values)
        return dumper.represent_sequence("tag:yaml.org,2002:seq", values, flow_style=flat)

    Dumper.add_representer(list, sequence)
    return Dumper


def _tier(key: str, node: Mapping[str, Any], fit: TierFit, tail_from: Machine) -> dict[str, Any]:
    tail = tail_from.tiers[0].curve
    points = with_tail(fit.curve.points, tail)
    curve, figures = fit.curve, fit.figures
    reach = (
        ""
        if fit.scaling < CORES_LIMIT
        else "; threads scale in proportion, so that cores, not memory, are the limit"
    )
    if fit.peaks.reads_fill < 1.0:
        reach += f"; reads alone reach {fit.peaks.reads_fill:.0%} of it, reads and writes together all"
    return {
        "name": key,
        "capacity_bytes": node["capacity_bytes"],
        "latency_ns": _rounded(curve.latency_ns),
        "read_gbps": _rounded(fit.peaks.read_gbps),
        "write_gbps": _rounded(fit.peaks.write_gbps),
        "duplex": fit.peaks.duplex,
        "curve": [(_rounded(place), _rounded(multiple)) for place, multiple in points],
        "sources": {
            "capacity_bytes": "as the operating system tells it for the node",
            "latency_ns": f"measured: dependent reads, fitted with the curve, {figures['latency_ns'].said()}",
            "read_gbps": f"measured: all processors stream, {figures['read_gbps'].said()}{reach}",
            "write_gbps": (
                "measured: streams that write a half and all of the lines they read,"
                f" {figures['write_gbps'].said()}"
            ),
            "curve": (
                f"{_curve_said(fit)}; past that the shape of machine {tail_from.name},"
                f" tier {tail_from.tiers[0].name}, joined on"
            ),
        },
    }


def _curve_said(fit: TierFit) -> str:
    curve = fit.curve
    if not fit.loaded:
        return (
            f"not measured but for idle latency, {curve.count} samples: with one processor nothing streams"
            " beside the one that reads"
        )
    return (
        f"measured: dependent reads beside streams of rising speed, {curve.count} samples, R2"
        f" {curve.r_squared:.3f}, residuals {curve.typical_residual:.1%} typical and"
        f" {curve.worst_residual:.1%} worst, measured up to {curve.measured_to:.0%} of peak bandwidth"
    )


def _overlap_note(figures: Mapping[str, Figure]) -> str:
    return (
        f"independent random reads overlap {figures['parallelism.random'].said()},"
        f" updates {figures['parallelism.update'].said()},"
        f" locked instructions {figures['parallelism.locked'].said()}:"
        " time of a dependent read over that of one of them"
    )


def _fill_source(fit: TierFit) -> str:
    stream = fit.figures["stream_gbps"]
    return (
        f"from one thread's streaming, {stream.said()}, by the model's equation of a stream:"
        f" {fit.figures['fill_buffers'].said()}; what hardware prefetchers hold counts with it"
    )


def _local(node: Mapping[str, Any], near: Mapping[str, Any]) -> bool:
    """Whether the processors reach a node without a link (UPI, CXL), which has separate channels."""
    return bool(node["number"] == near["number"])


def _moves_note(node: Mapping[str, Any]) -> str:
    moves = of_kind(node["samples"], "moves")
    said = []
    for size, spelled in ((4096, "4 KiB"), (2 << 20, "2 MiB")):
        of_size = [one for one in moves if one["page_bytes"] == size]
        parts = [
            f"{word} {median_figure([one[key] for one in of_size if key in one], 'ns').said()}"
            for key, word in (
                ("move_ns", "moved in"),
                ("copy_ns", "copied in"),
                ("replace_ns", "its frame replaced in"),
            )
            if any(key in one for one in of_size)
        ]
        said.append(f"a page of {spelled} is {', '.join(parts)}")
    one_node = any(one["way"] == "copy" for one in moves)
    ending = (
        "; with one node these are parts of a move, not a move: migration_cost is not calibrated"
        if one_node
        else ""
    )
    return f"node{node['number']}: {'; '.join(said)}{ending}"


def _migration_cost(nodes: Sequence[Mapping[str, Any]]) -> Figure | None:
    for node in nodes:
        moves = [
            one["move_ns"] / DECLARED_MOVE_NS
            for one in of_kind(node["samples"], "moves")
            if one["page_bytes"] == 4096 and "move_ns" in one
        ]
        if moves:
            return median_figure(moves, "times")
    return None


def _fit_document(fit: TierFit) -> dict[str, Any]:
    curve = fit.curve
    return {
        "figures": {name: figure.document() for name, figure in fit.figures.items()},
        "curve": {
            "points": [list(point) for point in curve.points],
            "low": list(fit.curve_low),
            "high": list(fit.curve_high),
            "r_squared": curve.r_squared,
            "typical_residual": curve.typical_residual,
            "worst_residual": curve.worst_residual,
            "samples": curve.count,
            "measured_to": curve.measured_to,
        },
        "bandwidth_r_squared": fit.peaks.r_squared,
        "scaling": fit.scaling,
    }


def _rounded(value: float) -> float:
    return float(f"{value:.{ROUNDING}g}")
