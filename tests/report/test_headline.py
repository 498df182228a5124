"""The sentence at the top of a report of several cells: how many improved when all are judged together."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from tests.explorer.made import NAME, campaign
from tests.report.example import example_cell, example_front
from tests.tuner.toy import DEFAULTS, RUNTIME, ToyBackend, toy_plan
from tiertune.tuner.cell_family import chance_of, improved_together
from tiertune.tuner.comparison.inference import ALPHA, chance
from tiertune.tuner.explorer.campaign import campaign_state
from tiertune.tuner.explorer.pages.campaigns import gain_words
from tiertune.tuner.journal import Journal
from tiertune.tuner.loop import journal_path, tune
from tiertune.tuner.report.data import overall
from tiertune.tuner.report.document import Cell
from tiertune.tuner.trial import Measurement, Trial
from tiertune.tuner.validation import Outcome, outcome


def cells(*ratios: float) -> list[Cell]:
    """Cells with these gains, those above 1 improved by themselves."""
    made = []
    for number, ratio in enumerate(ratios):
        cell = example_cell(seed=number, trials=1, improved=ratio > 1.0)
        assert cell.effect is not None
        effect = cell.effect.model_copy(update={"ratio": ratio})
        made.append(cell.model_copy(update={"effect": effect, "system": f"system{number}"}))
    return made


def test_what_is_improved_only_by_itself_is_counted_apart() -> None:
    said = overall(cells(1.3, 1.4, 1.2, 1.0), [0.001, 0.04, 0.01, 0.7])
    # The largest gain is the least sure one: 0.04 of two that are left is 0.08.
    assert said.startswith(
        "2 of 4 cells improved (at 5 % after Holm's adjustment over cells; 3 each by itself),"
        " 1.250x in the median cell; the most system0 on bc-kron (dimes-numa, 1:8): "
    )
    assert overall(cells(1.3, 1.0), [0.001, 0.7]).startswith(
        "1 of 2 cells improved (at 5 % after Holm's adjustment over cells), 1.150x in the median cell;"
    )


def test_where_none_is_left_nothing_is_called_an_improvement() -> None:
    assert overall(cells(1.3, 1.0, 1.0), [0.04, 0.7, 0.9]) == (
        "no improvement found in 3 cells, at 5 % after Holm's adjustment over cells; 1 each by itself"
    )
    assert overall(cells(1.0, 1.0), [0.6, 0.7]) == "no improvement found in 2 cells"


def test_one_cell_is_judged_by_itself_and_so_are_fronts() -> None:
    (one,) = cells(1.3)
    assert overall([one], [0.04]) == f"system0 on bc-kron: {one.verdict}"
    fronts = [cell.model_copy(update={"front": example_front()}) for cell in cells(1.3, 1.2)]
    assert overall(fronts, [0.04, 0.9]).startswith("2 of 2 cells improved (each judged by itself), ")


def test_the_test_is_of_what_the_interval_is_of(tmp_path: Path) -> None:
    plan = toy_plan(systems=("one", "two"), validation_seeds=8, trials=8)
    tune(plan, tmp_path, ToyBackend())
    with Journal(journal_path(tmp_path, "toy"), writer=False) as journal:
        for cell in plan.cells:
            judged = outcome(journal, cell.key, RUNTIME, 0)
            pairs = list(zip(judged.default_rows, judged.winner_rows, strict=True))
            gains = [d.cost - w.cost for d, w in pairs if d.cost is not None and w.cost is not None]
            assert judged.gains == tuple(gains)
            assert judged.effect is not None
            assert np.exp(np.mean(gains)) == pytest.approx(judged.effect.ratio)
            assert chance_of(judged) == pytest.approx(stats.ttest_1samp(gains, 0.0).pvalue)


class Hosted(ToyBackend):
    """Every seed runs on one of three hosts, on which tuning is worth 1.1, 1.4 and 1.7."""

    def run(self, trial: Trial, timeline_points: int = 0) -> Measurement:
        measurement = super().run(trial, timeline_points)
        host = trial.seed % 3
        if trial.config != DEFAULTS:
            measurement.metrics["runtime_s"] /= 1.1 + 0.3 * host
        return replace(measurement, worker=f"host{host}")


def test_where_hosts_differ_the_test_is_of_hosts(tmp_path: Path) -> None:
    plan = toy_plan(validation_seeds=12, trials=8)
    decisive = {**plan.document["campaign"], "live": [plan.cells[0].key]}
    plan = replace(plan, document={"campaign": decisive})
    tune(plan, tmp_path, Hosted())
    with Journal(journal_path(tmp_path, "toy"), writer=False) as journal:
        judged = outcome(journal, plan.cells[0].key, RUNTIME, 0)
    assert judged.effect is not None
    assert len(judged.gains) == 3
    assert np.exp(np.mean(judged.gains)) == pytest.approx(judged.effect.ratio)
    p = stats.ttest_1samp(judged.gains, 0.0).pvalue
    assert chance_of(judged) == pytest.approx(p)
    # The interval is of the same test.
    assert (judged.effect.low > 1.0) == (p < ALPHA)


def test_the_explorer_counts_as_the_report_does(tmp_path: Path) -> None:
    campaign(tmp_path / NAME)
    (cell,) = campaign_state(tmp_path / NAME).cells
    states = [replace(cell, key=str(p), chance=p) for p in (0.001, 0.04, 0.04)]
    assert gain_words(tuple(states)).startswith(
        "1 of 3 cells improved (at 5 % after Holm's adjustment over cells), at best 1.2"
    )


def test_a_cell_that_is_not_judged_yet_counts_as_no_gain(tmp_path: Path) -> None:
    assert chance_of(Outcome(None, [], [], None, False, "", False)) == 1.0


def test_of_cells_without_a_gain_some_improve_by_themselves_and_hardly_any_together() -> None:
    random = np.random.default_rng(3)
    campaigns, count = 400, 20
    alone = together = 0
    for _ in range(campaigns):
        gains = 0.02 * random.standard_normal((count, 10))
        chances = [chance(cell) for cell in gains]
        by_themselves = [p < ALPHA and cell.mean() > 0.0 for p, cell in zip(chances, gains, strict=True)]
        alone += any(by_themselves)
        together += any(improved_together(by_themselves, chances))
    assert alone / campaigns > 0.3
    assert together / campaigns <= ALPHA
