"""Transfers: configs that were tuned in one context run in others, as frames."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import pandas as pd

    from tiertune.tuner.api.campaigns import Progress
    from tiertune.tuner.plan import CampaignPlan
    from tiertune.tuner.transfer.context import Context
    from tiertune.tuner.transfer.measuring import Laboratory
    from tiertune.tuner.transfer.study import Settings


@dataclass(frozen=True)
class Walk:
    """An axis to walk along between two ends; `least` is the gain in percent that counts as better."""

    along: str
    ends: tuple[float, float]
    least: float
    contexts: tuple[int, ...] | None


@dataclass(frozen=True)
class Transfer:
    """What carries over between the contexts of some campaigns. Ratios are performance over the default of
    the context where a config runs, above 1 is better."""

    campaigns: tuple[str, ...]
    document: dict[str, Any] = field(repr=False)
    """The same as `tiertune transfer --json` prints."""

    @property
    def verdict(self) -> str:
        """The answer in a sentence."""
        return str(self.document["verdict"])

    @property
    def cells(self) -> pd.DataFrame:
        """A row for each transfer: ``tuned_in``, ``runs_in``, ratio with its interval, share of the gain
        there."""
        import pandas as pd

        rows = []
        for study in self.document["studies"]:
            labels = {one["number"]: one["label"] for one in study["contexts"]}
            for cell in study["matrix"]:
                where = {"tuned_in": labels[cell["from"]], "runs_in": labels[cell["to"]]}
                rows.append({"system": study["system"], **where, **cell})
        return pd.DataFrame(rows)

    @property
    def matrix(self) -> pd.DataFrame:
        """Ratios: rows are where a config was tuned, columns where it runs; empty for a walk."""
        import pandas as pd

        cells = self.cells
        if cells.empty:
            return pd.DataFrame()
        return cells.set_index(["system", "tuned_in", "runs_in"])["ratio"].unstack(sort=False)

    @property
    def walks(self) -> pd.DataFrame:
        """A row for each breakpoint of each line of a walk along an axis; empty without one."""
        import pandas as pd

        return pd.DataFrame(
            [
                {"axis": walk["axis"], "tuned_for": line["label"], "better": line["told"], **point}
                for walk in self.document["along"]
                for line in walk["lines"]
                for point in line["breakpoints"] or [{}]
            ]
        )

    def _repr_html_(self) -> str:
        from html import escape

        table = self.matrix.to_html() if self.document["studies"] else self.walks.to_html()
        return f"<p><b>{escape(self.verdict)}</b></p>{table}"


def transfer(
    campaigns: str | Path | Sequence[str | Path],
    *,
    seeds: int = 8,
    candidates: int = 5,
    portfolio: int = 2,
    aim: Literal["mean", "worst"] = "mean",
    along: str | None = None,
    first: str | None = None,
    last: str | None = None,
    least: float = 1.0,
    contexts: Sequence[int] | None = None,
    fresh: bool = False,
    jobs: int | None = None,
    results: str | Path = "results",
    progress: Callable[[Progress], None] | None = None,
) -> Transfer:
    """Runs what was tuned in each context in all others; campaigns that were not run yet are run first.

    With `along` (ratio, threads or latency-gap), walks from `first` to `last` instead and finds where a tuned
    config stops being better by `least` percent. Everything measured is kept under `results`. Raises
    `InputError`.
    """
    from tiertune.tuner.api import limits
    from tiertune.tuner.api.campaigns import tuned_here
    from tiertune.tuner.api.explaining import laboratory

    limits.check("seeds", seeds, limits.SEEDS)
    limits.check("candidates", candidates, limits.CANDIDATES)
    limits.check("portfolio", portfolio, limits.PORTFOLIO)
    limits.check("least (percent)", least, limits.LEAST_PCT)
    folder = Path(results)
    settings = settings_of(seeds, candidates, portfolio, aim)
    walk = walk_of(along, first, last, least, contexts)
    quiet = laboratory(folder, jobs, fresh)
    sources = [str(one) for one in ([campaigns] if isinstance(campaigns, str | Path) else campaigns)]
    planned(sources, folder, walk)
    names = [tuned_here(source, folder, progress) for source in sources]
    return Transfer(tuple(names), document_of(names, folder, settings, walk, quiet))


def settings_of(seeds: int, candidates: int, portfolio: int, aim: str) -> Settings:
    """What a user chooses; raises `InputError`."""
    from tiertune.files import InputError
    from tiertune.tuner.transfer.study import Settings

    if aim not in ("mean", "worst"):
        raise InputError(f"--aim {aim}: use mean or worst")
    return Settings(seeds, candidates, portfolio, "mean" if aim == "mean" else "worst")


def walk_of(
    along: str | None, first: str | None, last: str | None, least: float, contexts: Sequence[int] | None
) -> Walk | None:
    """The walk between two ends as they are written, None without an axis; raises `InputError`."""
    from tiertune.files import InputError

    if along is None:
        if first or last or contexts:
            raise InputError(
                "--from, --to and --context are about a walk; name its axis, such as --along ratio"
            )
        return None
    return Walk(along, _ends(along, first, last), least, None if contexts is None else tuple(contexts))


def _ends(along: str, first: str | None, last: str | None) -> tuple[float, float]:
    from tiertune.files import InputError
    from tiertune.tuner.transfer.axis import axis_called

    axis = axis_called(along)
    found = []
    for option, text in (("--from", first), ("--to", last)):
        if text is None:
            raise InputError(f"{option} is missing: an end of the walk along {along}, such as {axis.example}")
        try:
            found.append(axis.parse(text))
        except InputError as error:
            raise InputError(*(f"{option} {sentence}" for sentence in error.sentences)) from error
    if found[0] == found[1]:
        raise InputError(f"--to {last}: the walk ends where it begins; give two different ends")
    return found[0], found[1]


def planned(sources: Sequence[str], results: Path, asked: Walk | None) -> list[tuple[CampaignPlan, str]]:
    """The contexts of campaigns that may be still to be run, as the plan and the cell of each.

    Raises `InputError`, also where the walk is to begin with one that will not be there.
    """
    from tiertune.tuner.api.campaigns import campaign_to_build_on
    from tiertune.tuner.api.limits import check_numbers
    from tiertune.tuner.plan import plan_of

    plans = {plan.name: plan for plan in (plan_of(campaign_to_build_on(one, results)) for one in sources)}
    found = [(plan, cell.key) for plan in plans.values() for cell in plan.cells if cell.search == 0]
    check_numbers("--context", asked.contexts if asked else None, len(found), "there are")
    return found


def document_of(
    names: Sequence[str], results: Path, settings: Settings, asked: Walk | None, laboratory: Laboratory
) -> dict[str, Any]:
    """What is told of the campaigns `names`, which are complete. Raises `InputError`."""
    from tiertune import __version__, engine
    from tiertune.files import InputError
    from tiertune.tuner.report.data import python_policies
    from tiertune.tuner.transfer.context import contexts_of
    from tiertune.tuner.transfer.document import study_document
    from tiertune.tuner.transfer.report import NOT_MEASURED
    from tiertune.tuner.transfer.study import groups_of, run_study

    contexts = contexts_of([results / name / "journal.sqlite" for name in names])
    groups = groups_of(contexts)
    systems = {context.system for context in contexts}
    codes = {name: code for name, code in engine.registered().items() if name in systems}
    _, policies = python_policies(codes.values())
    studies: list[dict[str, Any]] = []
    walks: list[dict[str, Any]] = []
    command = ["tiertune", "transfer", *names, "--seeds", str(settings.seeds)]
    if asked is not None:
        walks = [_walk(contexts, asked, settings.seeds, laboratory)]
        ends = [walks[0][end].rstrip("x") for end in ("from", "to")]
        command += ["--along", asked.along, "--from", ends[0], "--to", ends[1]]
        command += [
            "--least",
            f"{asked.least:g}",
            *(f"--context={number}" for number in asked.contexts or ()),
        ]
    else:
        alone = [group[0] for group in groups if len(group) == 1]
        if alone:
            raise InputError(
                f"{alone[0].system} was tuned in one context only, {alone[0].cell}: there is nowhere to"
                " carry it; name a campaign with several scenarios, or several campaigns"
            )
        studies = [study_document(run_study(group, settings, laboratory)) for group in groups]
        command += ["--candidates", str(settings.candidates), "--portfolio", str(settings.portfolio)]
        command += ["--aim", settings.aim]
    return {
        "campaigns": list(names),
        "verdict": "; ".join(one["verdict"] for one in [*studies, *walks]),
        "studies": studies,
        "along": walks,
        "not_measured": list(NOT_MEASURED),
        "versions": {
            "tiertune": __version__,
            "engine": engine.version(),
            "build": engine.sources(),
            **({"policies": codes} if codes else {}),
        },
        "reproduce": [
            *_commits(names, results),
            f".venv/bin/{shlex.join(command)} --results results-again{policies}",
        ],
    }


def _walk(contexts: Sequence[Context], asked: Walk, seeds: int, laboratory: Laboratory) -> dict[str, Any]:
    from tiertune.files import InputError
    from tiertune.tuner.api.limits import check_numbers
    from tiertune.tuner.transfer.axis import axis_called
    from tiertune.tuner.transfer.breakpoint import along_document, walk
    from tiertune.tuner.transfer.context import labels_of

    numbers, along, ends = asked.contexts, asked.along, asked.ends
    several = len({context.system for context in contexts}) > 1
    labels = [
        f"{number} {context.system + ' ' if several else ''}{label}"
        for number, (context, label) in enumerate(zip(contexts, labels_of(contexts), strict=True), start=1)
    ]
    tuned = [number for number, one in enumerate(contexts, start=1) if one.improved]
    if not tuned:
        raise InputError(
            "nothing better than the default was found in any context: there is nothing to walk with"
        )
    check_numbers("--context", numbers, len(contexts), "there are")
    chosen = [number - 1 for number in dict.fromkeys(numbers or tuned)]
    axis = axis_called(along)
    pairs = [(contexts[number], labels[number]) for number in chosen]
    for one, _ in pairs:
        for end in ends:
            axis.place(one, end)  # before anything is measured: both ends can be run
    lines = walk(pairs, axis, ends, asked.least, seeds, laboratory)
    return along_document(lines, axis, ends, asked.least, seeds)


def _commits(names: Sequence[str], results: Path) -> list[str]:
    """The commands that make the campaigns again, from their own reports."""
    from tiertune.tuner.journal import Journal
    from tiertune.tuner.report.data import reproduction

    lines: list[str] = []
    for name in names:
        with Journal(results / name / "journal.sqlite", writer=False) as journal:
            lines += reproduction(journal.claimed(), list(journal.environments().values()))
    return list(dict.fromkeys(lines))
