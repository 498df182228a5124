"""`show` of a workload: what it is, how large, and the presets that it can be named with."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tiertune.workloads.definition import Workload
    from tiertune.workloads.live import HostPart


def is_workload(name: str) -> bool:
    """Whether this names a workload and no system; raises `InputError` where it looks more like one of the
    workloads than of the systems and is neither."""
    from tiertune import engine
    from tiertune.files import InputError, names
    from tiertune.nearest import alike, nearest
    from tiertune.workloads.preset import located

    try:
        engine.system(name)
        return False
    except engine.EngineError:
        pass
    try:
        located(name)
    except InputError:
        systems = [system.name for system in engine.systems()]
        likest = [alike(name, nearest(name, known)) for known in (systems, names("workloads"))]
        if likest[0] < likest[1]:
            raise
        return False
    return True


def show_workload(name: str, as_json: bool) -> None:
    """Prints a workload."""
    from tiertune.tuner.cli.output import console, print_json, print_table
    from tiertune.tuner.report.numbers import quantity
    from tiertune.workloads.definition import load_workload

    document = _document(load_workload(name))
    if as_json:
        print_json(document)
        return
    out, metric = console(), document["metric"]
    out.print(f"{document['name']}: {document['description']}", markup=False)
    out.print(f"source     {document['source']}", markup=False)
    threads = "one thread" if document["threads"] == 1 else f"{document['threads']} threads"
    out.print(f"footprint  {quantity(document['footprint_bytes'], 'bytes')}, {threads}")
    if document["loading"]:
        told = document["loading"]
        how = f"{told['name']} ({told['meaning']})"
        out.print(f"loading    {how}; decides where the arrays of the graph lie at first", markup=False)
    out.print(f"metric     {metric['name']} ({metric['unit']}), {metric['direction']}", markup=False)
    for one in document["metrics"]:
        if one["on_hosts_only"]:
            out.print(f"on hosts   {one['name']} ({one['role']}): {one['meaning']}", markup=False)
    for word in ("host", "original"):
        if document[word]:
            out.print(f"{word:<10} {shlex.join(document[word])}", markup=False, soft_wrap=True)
    if document["presets"]:
        out.print(f"\nPresets, as in --workload {document['name']}@{document['presets'][0]['name']}")
        print_table(
            ["preset", "footprint", "resident", "threads", "what it is"],
            [
                (
                    preset["name"],
                    quantity(preset["footprint_bytes"], "bytes"),
                    quantity(preset["rss_bytes"], "bytes") if preset["rss_bytes"] else "",
                    str(preset["threads"]),
                    f"{preset['description']}\nfrom: {preset['source']}",
                )
                for preset in document["presets"]
            ],
            numeric=["footprint", "resident", "threads"],
        )


def _command(part: HostPart | None) -> list[str] | None:
    """Placeholders stay, as threads and seed are a trial's; a text of many lines is told by its first."""
    return None if part is None else [_first_line(word) for word in part.command]


def _first_line(word: str) -> str:
    first, _, rest = word.partition("\n")
    return f"{first} ..." if rest else first


def _document(workload: Workload) -> dict[str, Any]:
    from tiertune.engine import MetricInfo, metrics
    from tiertune.workloads.kernels import kernel, loadings

    declared = next(metric for metric in metrics() if metric.name == workload.metric.name)
    program = workload.sim.record or workload.native
    own = () if program is None else kernel(program.kernel).metrics

    def told(one: MetricInfo, on_hosts_only: bool) -> dict[str, Any]:
        role = one.role
        if one.role == "objective" and one.name != declared.name:
            role = "secondary"  # a workload has one objective
        return {**vars(one), "role": role, "on_hosts_only": on_hosts_only}

    loading = workload.sim.carry.loading
    chosen = {name: workload.preset(name) for name in workload.presets}
    return {
        "name": workload.name,
        "description": workload.description,
        "source": workload.source,
        "metric": {**workload.metric.model_dump(), "unit": declared.unit, "meaning": declared.meaning},
        "metrics": [*(told(one, False) for one in metrics()), *(told(one, True) for one in own)],
        "threads": workload.threads,
        "footprint_bytes": workload.footprint_bytes,
        "loading": {"name": loading, "meaning": loadings()[loading]} if loading else None,
        "host": _command(workload.on_host),
        "original": _command(workload.upstream),
        "presets": [
            {
                "name": name,
                "description": given.description,
                "source": chosen[name].source,
                "threads": chosen[name].threads,
                "footprint_bytes": chosen[name].footprint_bytes,
                "rss_bytes": given.rss,
            }
            for name, given in workload.presets.items()
        ],
    }
