"""Configs by name: explicit knobs, what a campaign found, and ablations of both."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tiertune import engine
from tiertune.files import InputError
from tiertune.nearest import nearest
from tiertune.tuner.journal import Journal
from tiertune.tuner.journal_claim import Claim
from tiertune.tuner.search.objectives import objectives_of
from tiertune.tuner.sweep.axes import ConfigEntry
from tiertune.tuner.sweep.row import Coordinates
from tiertune.tuner.trial import Config, Scenario, plain_config
from tiertune.tuner.validation import handed_over


class NotApplicable(Exception):
    """This config is none for this row; the sentence says why."""


@dataclass(frozen=True)
class Winner:
    """What a campaign found for one of its cells, the default where nothing was better.

    `config` is None where nothing but the default worked, or not yet. `code` is the digest of a policy that
    is written in Python.
    """

    cell: str
    system: str
    workload: str
    machine: str
    scenario: Scenario
    config: Config | None
    code: str | None


class Configs:
    """Resolves the configs of a sweep; campaigns are read once, from `results`."""

    def __init__(self, results: Path) -> None:
        self._results = results
        self._winners: dict[str, list[Winner]] = {}

    def expanded(self, entry: ConfigEntry, at: Coordinates) -> Iterator[tuple[str, Config | NotApplicable]]:
        """The entry for a row (whose own `config` is not looked at), then one config per ablated knob.

        Names with the complete config, or with the reason why there is none for this row. Raises
        `InputError` where the campaign or its cell does not exist.
        """
        try:
            config = self._resolved(entry, at)
        except NotApplicable as reason:
            yield entry.name, reason
            return
        yield entry.name, config
        if entry.ablate:
            defaults = plain_config(engine.check_config(at.system, {}))
            for knob, value in config.items():
                if value != defaults[knob]:
                    yield f"{entry.name}-without-{knob.replace('_', '-')}", {**config, knob: defaults[knob]}

    def _resolved(self, entry: ConfigEntry, at: Coordinates) -> Config:
        has = {knob.name for knob in engine.system(at.system).knobs}
        missing = [name for name in (*entry.knobs, *entry.defaults) if name not in has]
        if missing:
            raise NotApplicable(f"{at.system} has no knob {missing[0]}, which config {entry.name} sets")
        config: Config = dict(self._winner(entry, at)) if entry.campaign else {}
        config |= entry.knobs
        for name in entry.defaults:
            config.pop(name, None)
        try:
            return plain_config(engine.check_config(at.system, config))
        except engine.EngineError as error:
            # The file's knobs were checked when it was read; those of a campaign may not fit beside them.
            raise NotApplicable(f"config {entry.name}: {error}") from error

    def _winner(self, entry: ConfigEntry, at: Coordinates) -> Config:
        assert entry.campaign is not None
        winners = self._of(entry.campaign)
        if entry.cell is not None:
            found = [winner for winner in winners if winner.cell == entry.cell]
            if not found:
                near = nearest(entry.cell, [winner.cell for winner in winners])
                raise InputError(
                    f"configs: {entry.name}: campaign {entry.campaign} has no cell '{entry.cell}';"
                    f" did you mean '{near}'?"
                )
            if found[0].system != at.system:
                raise NotApplicable(f"cell {entry.cell} of campaign {entry.campaign} is of {found[0].system}")
        else:
            # Of several searches of a cell the first counts; later ones are called like it, with a number.
            cells = {winner.cell for winner in winners}
            mine = [
                winner
                for winner in winners
                if winner.system == at.system and winner.cell.rpartition("#")[0] not in cells
            ]
            if not mine:
                raise NotApplicable(f"campaign {entry.campaign} did not tune {at.system}")
            found = [winner for winner in mine if _same_scenario(winner, at)] or mine
            if len(found) > 1:
                raise NotApplicable(
                    f"campaign {entry.campaign} has {len(found)} cells of {at.system}, none for this row's"
                    f" scenario alone; name one with 'cell', such as {found[0].cell}"
                )
        if found[0].code != engine.registered().get(at.system):
            raise NotApplicable(f"campaign {entry.campaign} tuned another version of {at.system}'s file")
        if found[0].config is None:
            raise NotApplicable(f"campaign {entry.campaign} has no winner for {found[0].cell} (yet)")
        return found[0].config

    def _of(self, campaign: str) -> list[Winner]:
        if campaign not in self._winners:
            self._winners[campaign] = _read(self._results, campaign)
        return self._winners[campaign]


def refuse_front(claim: Claim, campaign: str) -> None:
    """Raises `InputError` for a campaign of two objectives."""
    if objectives_of(claim.document["campaign"]) is not None:
        text = "it has a front of two objectives, and no one configuration that is the tuned one"
        raise InputError(f"campaign {campaign}: {text}; write the knobs of one of its tuned files")


def _read(results: Path, campaign: str) -> list[Winner]:
    path = results / campaign / "journal.sqlite"
    if not path.is_file():
        near = nearest(campaign, [found.parent.name for found in results.glob("*/journal.sqlite")])
        hint = f"did you mean '{near}'?" if near else f"run it first: tiertune tune {campaign}"
        raise InputError(f"{path}: there is no journal of campaign '{campaign}'; {hint}")
    winners = []
    with Journal(path, writer=False) as journal:
        claim = journal.claimed()
        refuse_front(claim, campaign)
        for key, cell in claim.document["cells"].items():
            rows = journal.rows(key, "search")
            if rows:
                config = handed_over(journal, key, claim.generation)
                trial = rows[0].trial
                names = cell["workload"]["name"], cell["machine"]["name"]
                winners.append(Winner(key, trial.system, *names, trial.scenario, config, cell.get("code")))
    return winners


def _same_scenario(winner: Winner, at: Coordinates) -> bool:
    same = (winner.workload, winner.machine, winner.scenario.ratio) == (at.workload, at.machine, at.fast)
    return same and winner.scenario.threads in (None, at.threads)
