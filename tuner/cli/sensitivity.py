"""`sensitivity`: whether a conclusion stays over what the model does not know for sure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiertune.tuner.cli.failures import guarded, stopped_measuring, was_interrupted
from tiertune.tuner.cli.options import RESULTS, Figures, Json, OpenPage, Results

if TYPE_CHECKING:
    from tiertune.tuner.sensitivity.parameters import Uncertain
    from tiertune.tuner.sensitivity.study import SceneStudy

TOGETHER = 16
MOST_REASONS = 5


@guarded
def sensitivity(
    source: Annotated[
        str | None, typer.Argument(metavar="SWEEP|CAMPAIGN", help="A sweep, or a campaign that was run.")
    ] = None,
    claim: Annotated[
        str | None, typer.Option(metavar="TEXT", help="'A beats B', 'A/CONFIG beats B by 5 % on WORKLOAD'.")
    ] = None,
    only: Annotated[
        str | None, typer.Option("--parameters", metavar="NAMES", help="Vary only these: see --list.")
    ] = None,
    together: Annotated[
        int, typer.Option(min=0, max=10_000, help="Models in which all parameters vary at once.")
    ] = TOGETHER,
    seeds: Annotated[str | None, typer.Option(help="Seeds in place of the sweep's: 1, 1-5 or 1,7,9.")] = None,
    list_parameters: Annotated[
        bool, typer.Option("--list", help="Print the parameters with ranges and sources.")
    ] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Measure again what was measured before.")] = False,
    jobs: Annotated[
        int | None, typer.Option(min=1, max=256, help="Runs at a time; one for each core by default.")
    ] = None,
    results: Results = RESULTS,
    figures: Figures = None,
    open_page: OpenPage = False,
    as_json: Json = False,
) -> None:
    """Say whether a conclusion stays when the model changes.

    Each parameter alone at both ends of its range, then all at once (a Latin
    hypercube). Robust: the conclusion holds in every model; mostly robust: in
    90 %. What was measured before is read back; Ctrl-C loses nothing.

    \b
    Examples:
      tiertune sensitivity co-runners --claim "notier beats all-slow"
      tiertune sensitivity demo --open
      tiertune sensitivity --list
    """
    import os

    from tiertune.files import InputError
    from tiertune.tuner.api.sweeping import reproduction
    from tiertune.tuner.cli.output import console, figure_files, print_json, show
    from tiertune.tuner.sensitivity.conclusion import machines_of, read_conclusion, scenes_of
    from tiertune.tuner.sensitivity.page import document_of, figures_of
    from tiertune.tuner.sensitivity.parameters import PARAMETERS, samples_of, varied_on
    from tiertune.tuner.sensitivity.source import sweep_of
    from tiertune.tuner.sensitivity.study import run_study
    from tiertune.tuner.sweep.matrix import rows_of
    from tiertune.tuner.sweep.progress import watching

    if list_parameters:
        _list(PARAMETERS, as_json)
        return
    if source is None:
        raise InputError("name a sweep or a campaign: tiertune sensitivity co-runners --claim 'A beats B'")
    parameters = _chosen(PARAMETERS, only)
    sweep, usual = sweep_of(source, results)
    if claim is None and usual is None:
        raise InputError("--claim is missing: what is to be held to, such as 'hemem beats notier'")
    conclusion = read_conclusion(claim or usual or "")
    if seeds is not None:
        from tiertune.tuner.api.evaluation import parse_seeds
        from tiertune.tuner.api.sweeping import with_seeds

        sweep = with_seeds(sweep, parse_seeds(seeds))
    scenes = scenes_of(conclusion, rows_of(sweep, results))
    varied = varied_on(parameters, machines_of(scenes))
    idle = [parameter.name for parameter in parameters if parameter not in varied]
    if only is not None and idle:
        raise InputError(f"--parameters: no machine of this study depends on {', '.join(idle)}; leave it out")
    parameters = varied
    samples = samples_of(parameters, together)
    try:
        with watching(console(stderr=True)) as (listener, notify):
            studies = run_study(
                conclusion,
                scenes,
                samples,
                parameters,
                results,
                jobs=jobs or len(os.sched_getaffinity(0)),
                fresh=fresh,
                notify=notify,
                listener=listener,
            )
    except BaseException as error:
        if not was_interrupted(error):
            raise
        raise stopped_measuring(fresh) from None
    given = (("--claim", claim), ("--parameters", only), ("--seeds", seeds), ("--together", together))
    told = (word for option, value in given if value is not None for word in (option, str(value)))
    again = reproduction(sweep, ["sensitivity", source, *told], results)
    document = document_of(source, conclusion, parameters, samples, studies, again)
    paths = _write(source, document, results)
    page = paths[0]
    paths += figure_files(figures, lambda: figures_of(document))
    if as_json:
        print_json({**document, "files": [str(path) for path in paths]})
    else:
        _print(studies, document["told"], paths)
    if open_page:
        show(page)


def _chosen(parameters: Sequence[Uncertain], only: str | None) -> list[Uncertain]:
    from tiertune.files import InputError
    from tiertune.nearest import nearest

    if only is None:
        return list(parameters)
    known = {parameter.name: parameter for parameter in parameters}
    chosen = []
    for name in dict.fromkeys(text.strip() for text in only.split(",")):
        if name not in known:
            raise InputError(f"--parameters: there is no '{name}'; did you mean '{nearest(name, known)}'?")
        chosen.append(known[name])
    return chosen


def _list(parameters: Sequence[Uncertain], as_json: bool) -> None:
    from tiertune.tuner.cli.output import print_json, print_table

    if as_json:
        fields = ("name", "unit", "meaning", "low", "high", "source")
        print_json([{name: getattr(parameter, name) for name in fields} for parameter in parameters])
        return
    print_table(
        ["parameter", "range", "what it is, and where the range comes from"],
        [
            (one.name, f"{one.low:g} to {one.high:g} {one.unit}", f"{one.meaning}\n{one.source}")
            for one in parameters
        ],
    )


def _write(source: str, document: dict[str, Any], results: Path) -> list[Path]:
    """Writes what a study leaves; a campaign's report has what is known of its conclusion."""
    from tiertune.tuner.report.files import write_report
    from tiertune.tuner.report.robustness import sensitivity_folder
    from tiertune.tuner.sensitivity.page import plain, write_files

    campaign = (results / source / "journal.sqlite").is_file()
    name = source if campaign else Path(source).stem
    paths = write_files(sensitivity_folder(results, name) / plain(document["claim"]), document)
    return [*paths, *write_report(results / name)[1]] if campaign else paths


def _print(studies: Sequence[SceneStudy], told: str, paths: Sequence[Path]) -> None:
    from tiertune.tuner.cli.output import console, print_table
    from tiertune.tuner.sensitivity.page import percent, span_with_median

    out = console()
    for study in studies:
        out.print(f"{study.name}: lead {percent(study.nominal_pct)} as the machine file says", markup=False)
        print_table(
            ["parameter", "low", "lead", "high", "lead at high"],
            [
                (
                    swing.parameter.name,
                    f"{swing.parameter.low:g}",
                    percent(swing.low_pct),
                    f"{swing.parameter.high:g}",
                    percent(swing.high_pct),
                )
                for swing in study.swings
            ],
            ["low", "lead", "high", "lead at high"],
        )
        known = [lead for lead in study.together_pct if lead is not None]
        if known:
            out.print(f"all together: {span_with_median(known)} ({len(known)} models)", markup=False)
        for error in study.errors[:MOST_REASONS]:
            out.print(error, markup=False)
        out.print(f"{study.verdict}: holds in {study.holding} of {study.measured} models", markup=False)
        out.print()
    out.print(told, markup=False, soft_wrap=True)
    for path in paths:
        out.print(str(path), markup=False, soft_wrap=True)
