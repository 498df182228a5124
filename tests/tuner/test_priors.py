"""Priors: their densities, how searches follow and leave them, and campaigns with and without."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from ConfigSpace import Configuration, ConfigurationSpace, Float, Integer
from hypothesis import given
from hypothesis import strategies as st

from tests.contracts.optimiser import campaign
from tests.tuner import surfaces
from tests.tuner.interrupted import check_resumed
from tests.tuner.test_presets import CAMPAIGN, KNOBS, write
from tiertune.spaces.configspace import to_configspace
from tiertune.spaces.definition import load_space
from tiertune.tuner.campaign import load_campaign
from tiertune.tuner.journal import Journal
from tiertune.tuner.loop import journal_path, tune
from tiertune.tuner.optimiser.base import Settings
from tiertune.tuner.optimiser.belief import DOUBT, GRID, MOST, Belief
from tiertune.tuner.optimiser.cube import Cube
from tiertune.tuner.optimiser.smac import BelievedEI, SmacOptimiser
from tiertune.tuner.plan import plan_of
from tiertune.tuner.simulation import SimBackend
from tiertune.tuner.trial import canonical

ADVISED = KNOBS.replace("max: 16}", "max: 16, prior: {around: 4, spread: 2}}").replace(
    "max: 20000}", "max: 20000, prior: {around: 2000, spread: 3}}"
)
FOLLOWING = CAMPAIGN.replace("presets: true", "priors: true").replace("random}", "smac}")


def belief_of(space: ConfigurationSpace) -> Belief:
    found = Belief.of(space)
    assert found is not None
    return found


@given(
    st.integers(1, 1000), st.integers(2, 10**6), st.floats(0, 1), st.floats(1.01, 1e6), st.booleans(),
    st.booleans(),
)  # fmt: skip
def test_a_prior_is_a_density_that_rules_nothing_out(
    low: int, width: int, place: float, spread: float, log: bool, whole: bool
) -> None:
    around = round(low + place * width)
    made = ConfigurationSpace(seed=0)
    make = Integer if whole else Float
    made.add(make("knob", (low, low + width), log=log, meta={"prior": {"around": around, "spread": spread}}))
    belief = belief_of(made)
    pushed = belief.warped(GRID[:, None])[:, 0]
    assert pushed[0] == 0.0
    assert pushed[-1] == pytest.approx(1.0)
    assert np.all(np.diff(pushed) >= 0.0)
    # No stretch of the range gets less than DOUBT of what an even spread would give it.
    assert np.max(np.diff(pushed)) <= np.diff(GRID)[0] / DOUBT * (1 + 1e-6)
    weight = np.exp(belief.log_weight(GRID[:, None]))
    assert np.all((weight >= 1 / MOST - 1e-12) & (weight <= 1 + 1e-9))
    # The likeliest place is that which was named.
    named = np.clip([[made["knob"].to_vector(around)]], 0.0, 1.0)
    assert belief.log_weight(named)[0] == pytest.approx(0.0, abs=1e-9)


def test_draws_are_as_likely_as_the_prior_says() -> None:
    space = surfaces.advised_space()
    cube, belief = Cube(space), belief_of(space)
    points = cube.placed(belief.warped(np.random.default_rng(1).random((4000, len(list(space.values()))))))
    modes = points[:, space.index_of["mode"]]
    chance = (1 - DOUBT) * 0.6 + DOUBT / 3
    assert np.mean(modes == space["mode"].to_vector("async")) == pytest.approx(chance, abs=0.03)
    periods = space["sample_period"].to_value(points[:, space.index_of["sample_period"]])
    within = np.mean((periods > 1500 / 3) & (periods < 1500 * 3))
    even = math.log(9) / math.log(100_000 / 100)
    assert within == pytest.approx((1 - DOUBT) * 0.69 + DOUBT * even, abs=0.03)
    scans = points[:, space.index_of["scan_s"]]  # no prior: as even as before
    assert np.histogram(scans, 4, (0, 1))[0] == pytest.approx([1000] * 4, abs=90)


def test_a_knob_that_does_not_act_says_nothing() -> None:
    space = surfaces.advised_space()
    cube, belief = Cube(space), belief_of(space)
    points = cube.sample(50, np.random.default_rng(0))
    points[:, space.index_of["mode"]] = space["mode"].to_vector("off")
    other = points.copy()
    other[:, space.index_of["batch"]] = 0.0
    idle = [cube.deactivated(some) for some in (points, other)]
    assert np.isnan(idle[0]).any()
    assert np.array_equal(belief.log_weight(idle[0]), belief.log_weight(idle[1]))
    assert np.isfinite(belief.log_weight(idle[0])).all()


def test_a_space_without_priors_has_no_belief() -> None:
    assert Belief.of(surfaces.space()) is None


class Flat:
    """A model that sees no difference anywhere."""

    def predict_marginalized(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros((len(points), 1)), np.ones((len(points), 1))


def test_what_priors_weigh_fades_with_trials() -> None:
    space = surfaces.advised_space()
    points = Cube(space).sample(500, np.random.default_rng(0))

    def ratio(after: int) -> float:
        function = BelievedEI(belief_of(space), after)
        function.update(model=Flat(), eta=0.0)  # type: ignore[arg-type]
        values = function._compute(points)
        return float(values.max() / values.min())

    ratios = [ratio(after) for after in (0, 1, 4, 30, 1000)]
    assert ratios == sorted(ratios, reverse=True)
    assert ratios[1] > 10.0
    assert ratios[3] < 1.5
    assert ratios[4] == 1.0


@pytest.mark.parametrize("priors", [None, surfaces.GOOD], ids=["without", "with"])
def test_half_of_the_initial_design_goes_by_the_priors(
    priors: Mapping[str, Mapping[str, object]] | None,
) -> None:
    optimiser = SmacOptimiser(surfaces.space(priors=priors), Settings(1, 33, 0.2))
    decays = [float(optimiser.ask(number, []).config["decay"]) for number in range(1, 33)]
    near = sum(0.03 <= decay <= 0.12 for decay in decays)
    assert near in range(9, 12) if priors is None else near >= 14  # of 32; an even spread has 9.6 there
    assert sum(decay > 0.3 for decay in decays) >= 4  # where the prior has next to nothing


def followed(priors: Mapping[str, Mapping[str, object]]) -> tuple[list[float], float]:
    """What the priors weigh at each of the model's proposals, and the best regret."""
    space = surfaces.space(priors=priors)
    tried = campaign(SmacOptimiser(space, Settings(1, 6, 0.0)), 18)
    models = [Configuration(space, values=p.config).get_array() for p in tried if p.origin == "model"]
    weights = belief_of(space).log_weight(np.array(models))
    return list(weights), min(surfaces.smooth(proposal.config) for proposal in tried) - 1.0


def test_the_model_stays_with_good_priors_and_leaves_bad_ones() -> None:
    good, found = followed(surfaces.GOOD)
    assert min(good) > -2.0
    assert found < 0.01
    bad, _ = followed(surfaces.BAD)
    assert bad[0] > -1.0
    assert np.mean(bad[-5:]) < -3.5  # where they weigh next to nothing: log(1 / MOST) is the least


def test_a_campaign_with_priors_is_the_same_after_a_kill(tmp_path: Path) -> None:
    loaded = load_campaign(str(write(tmp_path / "files", ADVISED, FOLLOWING)))
    check_resumed(loaded, tmp_path, 5)


def test_priors_that_are_not_followed_change_nothing(tmp_path: Path) -> None:
    off = FOLLOWING.replace("priors: true\n", "")
    plain = load_campaign(str(write(tmp_path / "files", KNOBS, off)))
    document = plan_of(plain).document
    assert '"prior' not in canonical(document)
    silent = plan_of(load_campaign(str(write(tmp_path / "files", ADVISED, off))))
    assert silent.document == document
    followed = plan_of(load_campaign(str(write(tmp_path / "files", ADVISED, FOLLOWING))))
    assert followed.document != document
    first = [
        plan.new_optimiser(plan.cells[0]).ask(1, []).config for plan in (plan_of(plain), silent, followed)
    ]
    assert first[0] == first[1]
    assert first[2] != first[0]


def test_memory_comes_from_campaigns_with_other_advice(tmp_path: Path) -> None:
    """Presets and priors say what to try first; what can be tried is the same."""
    results = tmp_path / "results"
    searched = CAMPAIGN.replace("trials: 7", "trials: 12").replace("presets: true\n", "")
    first = load_campaign(str(write(tmp_path / "files", KNOBS, searched)))
    backend = SimBackend(tmp_path / "profiles", first.workload, first.machine)
    tune(plan_of(first), results, backend)
    later = FOLLOWING.replace("name: small", "name: later") + "memory: start\n"
    second = load_campaign(str(write(tmp_path / "files", ADVISED, later)))
    tune(plan_of(second), results, backend)
    with Journal(journal_path(results, "later"), writer=False) as journal:
        origins = [row.trial.origin for row in journal.rows(purpose="search")]
    assert origins[:4] == ["default", "memory", "memory", "memory"]


def test_priors_of_a_space_file_reach_the_optimiser(tmp_path: Path) -> None:
    path = write(tmp_path / "files", ADVISED)
    space = load_space(str(path.with_name("narrow.yaml")))
    belief = belief_of(to_configspace(space, 0))
    knobs = to_configspace(space, 0)
    ends = np.array([[knobs[name].to_vector(value) for name, value in start.items()] for start in (
        {"migration_period_ms": 10.0, "read_hot_threshold": 4, "sampling_period": 2000},
        {"migration_period_ms": 10.0, "read_hot_threshold": 16, "sampling_period": 20000},
    )])  # fmt: skip
    weights = belief.log_weight(ends)
    assert weights[0] == pytest.approx(0.0, abs=1e-3)
    assert weights[1] < -1.5
