"""`reproduce`: published results run again and judged, as a scoreboard."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tiertune.tuner.cli.failures import guarded, was_interrupted
from tiertune.tuner.cli.options import RESULTS, Json, Results

if TYPE_CHECKING:
    from tiertune.tuner.claims.definition import Claim
    from tiertune.tuner.claims.verdict import Judged


@guarded
def reproduce(
    claims: Annotated[
        str, typer.Option("--claims", metavar="FILE", help="A claims file of `claims/`, or a path.")
    ] = "public",
    paper: Annotated[str | None, typer.Option(help="Only the claims of this paper.")] = None,
    claim_id: Annotated[str | None, typer.Option("--id", help="Only this claim.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Measure again what was measured before.")] = False,
    jobs: Annotated[
        int | None, typer.Option(min=1, max=256, help="Runs at a time; one for each core by default.")
    ] = None,
    results: Results = RESULTS,
    as_json: Json = False,
) -> None:
    """Run published results again and say which come out.

    Each claim is a sweep and checks on the medians over its seeds. What was
    measured before with the same engine is read back.

    \b
    Examples:
      tiertune reproduce --id SA-02
      tiertune reproduce --paper soar-alto
      tiertune reproduce --json
    """
    import json
    import os

    from tiertune.files import InputError
    from tiertune.nearest import nearest
    from tiertune.tuner.claims.definition import load_claims
    from tiertune.tuner.claims.report import render_html, render_markdown, score
    from tiertune.tuner.claims.verdict import judge
    from tiertune.tuner.cli.output import console, print_json
    from tiertune.tuner.report.files import write_whole
    from tiertune.tuner.sweep.matrix import rows_of
    from tiertune.tuner.sweep.measured import groups_of, measured_rows
    from tiertune.tuner.sweep.measurement import measure
    from tiertune.tuner.sweep.progress import watching

    loaded = load_claims(claims)
    for option, given, known in (
        ("--paper", paper, {claim.paper for claim in loaded.claims}),
        ("--id", claim_id, {claim.id for claim in loaded.claims}),
    ):
        if given is not None and given not in known:
            near = nearest(given, sorted(known))
            raise InputError(f"{option} {given}: {loaded.name} has no such claim; did you mean '{near}'?")
    chosen = [
        claim for claim in loaded.claims if paper in (None, claim.paper) and claim_id in (None, claim.id)
    ]
    sweeps = {claim.id: loaded.sweep_of(claim) for claim in chosen}
    plans = {name: rows_of(sweep, results) for name, sweep in sweeps.items() if sweep is not None}
    try:
        with watching(console(stderr=True)) as (listener, notify):
            found = measure(
                [plan for rows in plans.values() for plan in rows],
                results,
                jobs=jobs or len(os.sched_getaffinity(0)),
                fresh=fresh,
                timelines=False,
                notify=notify,
                listener=listener,
            )
    except BaseException as error:
        if not was_interrupted(error):
            raise
        raise KeyboardInterrupt("stopped; what is measured is kept, the same command goes on") from None
    groups = {name: groups_of(measured_rows(rows, found, [])) for name, rows in plans.items()}
    judged = [judge(claim, groups.get(claim.id, [])) for claim in chosen]
    document = {"claims": loaded.name, "score": score(judged), "rows": [entry.document() for entry in judged]}
    # What is about some of the claims goes beside what is about all of them, not in its place.
    name = "-".join([loaded.name, *(str(part).lower() for part in (paper, claim_id) if part)])
    paths = {
        results / "claims" / f"{name}.json": json.dumps(document, indent=2, ensure_ascii=False) + "\n",
        results / "claims" / f"{name}.md": render_markdown(loaded, judged),
        results / "claims" / f"{name}.html": render_html(loaded, judged, groups),
    }
    for path, text in paths.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text)
    if as_json:
        print_json(document)
    else:
        _print(judged, list(paths))


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
    if entry.verdict == "missed":
        lines.append(f"expected: {entry.expected}")
    if entry.reason:
        lines.append(f"because: {entry.reason}")
    return "\n".join(lines)
