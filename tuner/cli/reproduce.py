"""`reproduce`: published results run again and judged, as a scoreboard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiertune.tuner.cli.failures import BUG, guarded, stopped_measuring, was_interrupted
from tiertune.tuner.cli.options import RESULTS, Figures, Json, OpenPage, Results

if TYPE_CHECKING:
    from tiertune.tuner.claims.arrival import Arrivals
    from tiertune.tuner.claims.definition import Claim, Claims
    from tiertune.tuner.claims.verdict import Judged
    from tiertune.tuner.sweep.definition import Sweep
    from tiertune.tuner.sweep.measured import MeasuredRow
    from tiertune.tuner.sweep.row import PlannedRow, Result

# Papers and claims in the name of a file; it has all of them inside.
MOST_NAMED = 8


@guarded
def reproduce(
    claims: Annotated[
        str, typer.Option("--claims", metavar="FILE", help="A claims file of `claims/`, or a path.")
    ] = "public",
    papers: Annotated[
        list[str] | None,
        typer.Option("--paper", metavar="PAPER", help="Only the claims of this paper; may be repeated."),
    ] = None,
    claim_ids: Annotated[
        list[str] | None, typer.Option("--id", metavar="ID", help="Only this claim; may be repeated.")
    ] = None,
    perturb: Annotated[
        bool,
        typer.Option("--perturb", help="Also with other seeds, sizes and ratios: do verdicts stay?"),
    ] = False,
    campaigns: Annotated[
        bool,
        typer.Option(
            "--campaigns/--no-campaigns", help="Run campaigns that claims need, or leave those claims out."
        ),
    ] = True,
    fresh: Annotated[bool, typer.Option("--fresh", help="Measure again what was measured before.")] = False,
    jobs: Annotated[
        int | None, typer.Option(min=1, max=256, help="Runs at a time; one for each core by default.")
    ] = None,
    results: Results = RESULTS,
    figures: Figures = None,
    open_page: OpenPage = False,
    as_json: Json = False,
) -> None:
    """Run published results again and say which come out.

    Each claim is a sweep and checks on the medians over its seeds, more of
    them where one alone says otherwise and the file has more; campaigns
    whose winners it runs are run first. What was measured before with the same
    engine is read back; of what is not, each verdict is told on standard error
    as soon as it is known. Exit code 1 where a run crashed.

    \b
    Examples:
      tiertune reproduce --id SA-02 --id SA-35
      tiertune reproduce --paper soar-alto --open --figures paper/figures
      tiertune reproduce --json
    """
    import json
    import os

    from tiertune.files import InputError
    from tiertune.nearest import nearest
    from tiertune.tuner.claims.arrival import Arrivals
    from tiertune.tuner.claims.by_seed import judged_by_seed
    from tiertune.tuner.claims.definition import load_claims
    from tiertune.tuner.claims.report import figures_of, render_html, render_markdown, score
    from tiertune.tuner.claims.verdict import Judged, Verdict
    from tiertune.tuner.cli.output import figure_files, print_json, show
    from tiertune.tuner.report.files import write_whole
    from tiertune.tuner.sweep.matrix import rows_of
    from tiertune.tuner.sweep.measured import groups_of, measured_rows
    from tiertune.tuner.trial import Status

    jobs = jobs or len(os.sched_getaffinity(0))
    loaded = load_claims(claims)
    known = {
        "--paper": {claim.paper for claim in loaded.claims},
        "--id": {claim.id for claim in loaded.claims},
    }
    asked = [("--paper", one) for one in papers or []] + [("--id", one) for one in claim_ids or []]
    for option, given in asked:
        if given not in known[option]:
            near = nearest(given, sorted(known[option]))
            raise InputError(f"{option} {given}: {loaded.name} has no such claim; did you mean '{near}'?")
    chosen = [
        claim
        for claim in loaded.claims
        if (not papers or claim.paper in papers) and (not claim_ids or claim.id in claim_ids)
    ]
    sweeps = {claim.id: sweep for claim in chosen if (sweep := loaded.sweep_of(claim)) is not None}
    untuned = _untuned(sweeps, results, campaigns, fresh)
    plans = {name: rows_of(sweep, results) for name, sweep in sweeps.items() if name not in untuned}

    found: dict[str, Result] = {}
    rows: dict[str, list[MeasuredRow]] = {}

    def run(these: Sequence[Claim]) -> None:
        wanted = [plan for claim in these for plan in plans[claim.id]]
        arrivals = Arrivals(these, plans, sweeps)
        found.update(_measure(wanted, results, jobs, fresh, arrivals, known=found))
        for claim in these:
            rows[claim.id] = measured_rows(plans[claim.id], found, sweeps[claim.id].relative_to)

    def verdict_on(claim: Claim) -> Judged:
        if claim.id in untuned:
            return Judged(claim, Verdict.NOT_CHECKABLE, "", "", untuned[claim.id])
        return judged_by_seed(claim, rows.get(claim.id, []))

    run([claim for claim in chosen if claim.id in plans])
    judged = [verdict_on(claim) for claim in chosen]
    again = _with_more_seeds(loaded, [entry.claim for entry in judged if entry.split], sweeps)
    if again:
        sweeps |= again
        plans |= {name: rows_of(sweep, results) for name, sweep in again.items()}
        run([claim for claim in chosen if claim.id in again])
        judged = [verdict_on(entry.claim) if entry.claim.id in again else entry for entry in judged]
    groups = {name: groups_of(those) for name, those in rows.items()}
    document: dict[str, Any] = {
        "claims": loaded.name,
        "score": score(judged),
        "rows": [entry.document() for entry in judged],
    }
    # What is about some of the claims goes beside what is about all of them, not in its place.
    name = _stem(loaded.name, [part for _, part in asked])
    commands = _commands(claims, asked, campaigns)
    page = results / "claims" / f"{name}.html"
    texts = {
        results / "claims" / f"{name}.json": json.dumps(document, indent=2, ensure_ascii=False) + "\n",
        results / "claims" / f"{name}.md": render_markdown(loaded, judged),
        page: render_html(loaded, judged, groups, commands),
    }
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text)
    paths = [*texts, *figure_files(figures, lambda: figures_of(judged, groups))]
    if perturb:
        perturbed, off = _perturbed(judged, plans, sweeps, results, jobs, fresh)
        found |= off
        document["perturbed"] = perturbed
        path = results / "claims" / f"{name}-perturbed.json"
        write_whole(path, json.dumps(perturbed, indent=2, ensure_ascii=False) + "\n")
        paths.append(path)
    if as_json:
        print_json({**document, "files": [str(path) for path in paths]})
    else:
        _print(judged, paths)
        if perturb:
            _print_perturbed(perturbed)
    if open_page:
        show(page)
    if any(result.status == Status.CRASHED for result in found.values()):
        raise typer.Exit(BUG)


def _with_more_seeds(loaded: Claims, split: Sequence[Claim], sweeps: Mapping[str, Sweep]) -> dict[str, Sweep]:
    """By id: the sweeps of claims on which seeds disagree, where the file has more seeds for those."""
    from tiertune.tuner.cli.output import console

    more = {claim.id: sweep for claim in split if (sweep := loaded.sweep_of(claim, split=True)) is not None}
    again = {name: sweep for name, sweep in more.items() if sweep.seeds != sweeps[name].seeds}
    if again:
        told = f"seeds disagree on {', '.join(again)}: more of them"
        console(stderr=True).print(told, markup=False, highlight=False, soft_wrap=True)
    return again


def _measure(
    plans: Sequence[PlannedRow],
    results: Path,
    jobs: int,
    fresh: bool,
    arrivals: Arrivals | None = None,
    known: Mapping[str, Result] = MappingProxyType({}),
) -> dict[str, Result]:
    """Measures what is neither known nor cached; with `arrivals` a verdict is told when its last run ends."""
    from tiertune.tuner.cli.output import console
    from tiertune.tuner.sweep.measurement import measure
    from tiertune.tuner.sweep.progress import watching

    try:
        with watching(console(stderr=True)) as (listener, notify):
            return measure(
                plans,
                results,
                jobs=jobs,
                fresh=fresh,
                timelines=False,
                notify=notify,
                listener=listener,
                ended=arrivals.teller(notify) if arrivals else None,
                known=known,
            )
    except BaseException as error:
        if not was_interrupted(error):
            raise
        raise stopped_measuring(fresh) from None


def _stem(claims: str, asked: Sequence[str]) -> str:
    """Name of the files, short enough for a file system whatever was asked for."""
    parts = list(dict.fromkeys(part.lower() for part in asked))
    more = [f"and-{len(parts) - MOST_NAMED}-more"] if len(parts) > MOST_NAMED else []
    return "-".join([claims, *parts[:MOST_NAMED], *more])


def _commands(claims: str, asked: Sequence[tuple[str, str]], campaigns: bool) -> list[str]:
    """What makes the scoreboard again."""
    import shlex

    from tiertune.tuner.host_facts import environment_facts
    from tiertune.tuner.report.data import checkout

    given = [part for option in (("--claims", claims), *asked) for part in option]
    left_out = [] if campaigns else ["--no-campaigns"]
    command = [".venv/bin/tiertune", "reproduce", *given, *left_out, "--results", "results-again"]
    return [*checkout([environment_facts()["git"]]), shlex.join(command)]


def _untuned(sweeps: Mapping[str, Sweep], results: Path, campaigns: bool, fresh: bool) -> dict[str, str]:
    """Runs the campaigns that the sweeps take winners from, or says by claim which one is missing."""
    from tiertune.tuner.claims.definition import campaigns_of
    from tiertune.tuner.cli.campaign import tuned_campaign

    needed = {claim: campaigns_of(sweep) for claim, sweep in sweeps.items()}
    names = list(dict.fromkeys(name for some in needed.values() for name in some))
    if campaigns:
        try:
            for name in names:
                tuned_campaign(name, results)
        except BaseException as error:
            if not was_interrupted(error):
                raise
            raise stopped_measuring(fresh) from None
        return {}
    missing = {name for name in names if not (results / name / "journal.sqlite").is_file()}
    lacking = {claim: sorted(missing & {*some}) for claim, some in needed.items()}
    return {claim: _not_run(some) for claim, some in lacking.items() if some}


def _not_run(campaigns: Sequence[str]) -> str:
    if len(campaigns) == 1:
        return f"campaign {campaigns[0]} was not run"
    return f"campaigns {' and '.join(campaigns)} were not run"


def _perturbed(
    judged: Sequence[Judged],
    plans: dict[str, list[PlannedRow]],
    sweeps: Mapping[str, Sweep],
    results: Path,
    jobs: int,
    fresh: bool,
) -> tuple[list[dict[str, Any]], dict[str, Result]]:
    """Every claim that has a verdict, judged again on rows that are a little off; and what was measured."""
    from tiertune.tuner.claims.perturbation import (
        PERTURBATIONS,
        Perturbable,
        Perturbed,
        UnchangeableError,
        planned,
        rejudged,
    )

    subjects = [entry for entry in judged if entry.verdict != "not-checkable"]
    changed: dict[tuple[str, str], Perturbable] = {}
    ended: dict[tuple[str, str], Perturbed] = {}
    for entry in subjects:
        for one in PERTURBATIONS:
            key = (entry.claim.id, one.name)
            try:
                changed[key] = planned(plans[entry.claim.id], one)
            except UnchangeableError as error:
                ended[key] = Perturbed(one, None, str(error))
    found = _measure([row for one in changed.values() for row in one.plans], results, jobs, fresh)
    documents = []
    for entry in subjects:
        for one in PERTURBATIONS:
            key = (entry.claim.id, one.name)
            if key in changed:
                ended[key] = rejudged(
                    entry.claim, changed[key], one, found, sweeps[entry.claim.id].relative_to
                )
        told = [ended[entry.claim.id, one.name].document(entry) for one in PERTURBATIONS]
        verdicts = [item["stays"] for item in told if item["stays"] is not None]
        # Of what could not be changed at all, nobody knows.
        stays = all(verdicts) if verdicts else None
        documents.append(
            {"id": entry.claim.id, "verdict": str(entry.verdict), "stays": stays, "perturbations": told}
        )
    return documents, found


def _print_perturbed(documents: Sequence[dict[str, Any]]) -> None:
    from tiertune.tuner.cli.output import console, print_table

    if not documents:
        return
    names = [item["perturbation"] for item in documents[0]["perturbations"]]
    print_table(
        ["claim", "verdict", *names],
        [
            [
                document["id"],
                document["verdict"],
                *(item["verdict"] or "not possible" for item in document["perturbations"]),
            ]
            for document in documents
        ],
    )
    out = console()
    for document in documents:
        for item in document["perturbations"]:
            if item["stays"] is not True or item["reason"]:
                why = "; ".join(part for part in (item["measured"], item["reason"]) if part)
                out.print(f"{document['id']} {item['perturbation']}: {why}", markup=False)
    staying = [document for document in documents if document["stays"]]
    fully = sum(all(item["stays"] for item in document["perturbations"]) for document in staying)
    said = f"verdicts that stay under every perturbation: {fully} of {len(documents)}"
    if fully < len(staying):
        said += f"; under all that were possible: {len(staying)}"
    out.print(said, markup=False)


def _print(judged: Sequence[Judged], paths: Sequence[Path]) -> None:
    from tiertune.tuner.claims.report import GATES, score
    from tiertune.tuner.cli.output import console, print_table

    out = console()
    # By gate, so that what matters most stands together.
    ranked = sorted(judged, key=lambda entry: GATES.index(entry.claim.gate))
    rows = [(entry.claim.id, entry.claim.gate, entry.verdict, _told(entry.claim, entry)) for entry in ranked]
    print_table(["claim", "gate", "verdict", "what was found, and here"], rows)
    out.print()
    for gate, counts in score(judged).items():
        out.print(
            f"{gate}: " + ", ".join(f"{count} {verdict}" for verdict, count in counts.items()), markup=False
        )
    for path in paths:
        out.print(str(path), markup=False, soft_wrap=True)


def _told(claim: Claim, entry: Judged) -> str:
    lines = [claim.statement]
    if entry.measured:
        lines.append(f"here: {entry.measured}")
    if entry.split:
        lines.append(f"but {entry.split}")
    if entry.verdict == "missed":
        lines.append(f"expected: {entry.expected}")
    if entry.reason:
        lines.append(f"because: {entry.reason}")
    if entry.would_take:
        lines.append(f"it would take: {entry.would_take}")
    return "\n".join(lines)
