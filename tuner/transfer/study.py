"""A transfer test of one system over its contexts, from runs to what they came to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tiertune.tuner.transfer.candidate import Candidate, candidates_of
from tiertune.tuner.transfer.context import Context, labels_of
from tiertune.tuner.transfer.feature import distances_of
from tiertune.tuner.transfer.gain import Gain, Share, gain_of, share_of
from tiertune.tuner.transfer.leaving_out import Picks, picks_of
from tiertune.tuner.transfer.measuring import Laboratory, Place, Stage, held_back_seeds, place_of
from tiertune.tuner.transfer.portfolio import Leaf, grow, properties_of
from tiertune.tuner.transfer.prediction import Prediction, predict
from tiertune.tuner.transfer.robust import Aim, best_for
from tiertune.tuner.trial import Config

CHOICE_SEEDS = 2
"""For each candidate in each context. With so many contexts few seeds do: what is averaged is contexts."""

AIMS: tuple[Aim, ...] = ("mean", "worst")


@dataclass(frozen=True)
class Settings:
    """What a user chooses: `seeds` >= 5 of judgement, finalists of each context that are candidates,
    configurations of the portfolio, and what it is to be good at."""

    seeds: int
    candidates: int
    portfolio: int
    aim: Aim


@dataclass(frozen=True)
class Study:
    """All that a report needs. Numbers are indices of `contexts` and `candidates`.

    `gains` has what was judged, by candidate and context; `tuned` the candidate that is each context's own;
    `best_members` which one of the portfolio was best in each context on the seeds of choice.
    """

    contexts: Sequence[Context]
    labels: Sequence[str]
    settings: Settings
    candidates: Sequence[Candidate]
    tuned: Sequence[int]
    gains: Mapping[tuple[int, int], Gain]
    prediction: Prediction
    robust: Mapping[Aim, int]
    leaves: Sequence[Leaf]
    picks: Sequence[Picks]
    best_members: Sequence[int]

    @property
    def name(self) -> str:
        """The system, and its space where that is called otherwise."""
        first = self.contexts[0]
        return first.system if first.space == first.system else f"{first.system} ({first.space})"

    def native(self, context: int) -> Gain:
        """What a context's own tuned config gains there."""
        return self.gains[self.tuned[context], context]

    def share(self, candidate: int, context: int) -> Share | None:
        """The share of the native gain that a candidate has there; None where none was shown."""
        native = self.native(context)
        if native.effect is None or not native.effect.improved:
            return None
        return share_of(self.gains[candidate, context].by_seed, native.by_seed)


def groups_of(contexts: Sequence[Context]) -> list[list[Context]]:
    """Contexts among which configs can be carried: of one system and space."""
    groups: dict[tuple[str, str], list[Context]] = {}
    for context in contexts:
        groups.setdefault((context.system, context.space), []).append(context)
    return list(groups.values())


def run_study(contexts: Sequence[Context], settings: Settings, laboratory: Laboratory) -> Study:
    """Chooses on one set of seeds and judges on another. `contexts` are two or more of one system."""
    candidates = candidates_of(contexts, settings.candidates)
    tuned = [
        next(row for row, one in enumerate(candidates) if one.config == context.tuned) for context in contexts
    ]
    everyone = range(len(contexts))
    properties = [properties_of(context) for context in contexts]
    distances = distances_of([context.traits for context in contexts])
    tries = _measured(
        contexts, candidates, [(row, to) for row in range(len(candidates)) for to in everyone], "choice",
        CHOICE_SEEDS, laboratory,
    )  # fmt: skip
    chosen = np.array([[tries[row, to].log for to in everyone] for row in range(len(candidates))])
    rows = list(range(len(candidates)))
    robust = {aim: best_for(chosen, rows, list(everyone), aim) for aim in AIMS}
    leaves = grow(chosen, rows, list(everyone), properties, settings.portfolio, settings.aim)
    picks = picks_of(chosen, candidates, contexts, properties, distances, settings.portfolio, settings.aim)
    members = sorted({leaf.candidate for leaf in leaves})
    everywhere = {*tuned, *robust.values(), *members}
    wanted = {(row, to) for row in everywhere for to in everyone}
    wanted |= {(row, pick.context) for pick in picks for row in pick.by_way.values()}
    gains = _measured(contexts, candidates, sorted(wanted), "judgement", settings.seeds, laboratory)
    return Study(
        contexts, labels_of(contexts), settings, candidates, tuned, gains,
        predict(_losses(tuned, gains), distances), robust, leaves, picks,
        [best_for(chosen, members, [to], "mean") for to in everyone],
    )  # fmt: skip


def _measured(
    contexts: Sequence[Context],
    candidates: Sequence[Candidate],
    wanted: Sequence[tuple[int, int]],
    stage: Stage,
    count: int,
    laboratory: Laboratory,
) -> dict[tuple[int, int], Gain]:
    """Gains over the default, by candidate and context, in blocks of equal seeds."""
    places = [place_of(context) for context in contexts]
    seeds = [held_back_seeds(context, stage, count) for context in contexts]
    needed: list[tuple[Place, Config, Sequence[int]]] = [
        (places[to], candidates[row].config, seeds[to])
        for row, to in [*((0, to) for to in range(len(contexts))), *wanted]
    ]
    laboratory.measure(needed)
    return {
        (row, to): gain_of(
            laboratory.costs(places[to], candidates[0].config, seeds[to]),
            laboratory.costs(places[to], candidates[row].config, seeds[to]),
            laboratory.failure(places[to], candidates[0].config, seeds[to])
            or laboratory.failure(places[to], candidates[row].config, seeds[to]),
        )
        for row, to in wanted
    }


def _losses(tuned: Sequence[int], gains: Mapping[tuple[int, int], Gain]) -> np.ndarray:
    """Logs of how much slower each context's config is elsewhere than what was tuned there.

    NaN where a run failed, and from contexts in which nothing was found to carry elsewhere.
    """
    found = np.full((len(tuned), len(tuned)), np.nan)
    for origin, row in enumerate(tuned):
        if not row:
            continue
        for to, own in enumerate(tuned):
            if gains[row, to].effect is not None and gains[own, to].effect is not None:
                found[origin, to] = gains[own, to].log - gains[row, to].log
    return found
