"""The shared words: identities that stay, values that are plain, costs that are finite."""

from __future__ import annotations

import json
import math
import subprocess
import sys

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.tuner.toy import SCENARIO
from tiertune.tuner.trial import (
    Contention,
    Objective,
    Scenario,
    Trial,
    derive_seed,
    fingerprint,
    plain,
    plain_config,
)


def test_numpy_values_stop_at_the_trial() -> None:
    config = {"a": np.int64(3), "b": np.float64(0.5), "c": np.str_("sync"), "d": np.bool_(True), "e": 7}
    trial = Trial("c", "cell", 0, SCENARIO, "s", config, 1)  # type: ignore[arg-type]
    assert yaml.safe_load(yaml.safe_dump(trial.config)) == trial.config
    assert json.loads(json.dumps(trial.config)) == trial.config
    assert [type(value) for value in trial.config.values()] == [int, float, str, bool, int]


@pytest.mark.parametrize("value", [None, [1], {"a": 1}, np.array([1, 2]), object()])
def test_what_is_no_knob_value_is_refused(value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        plain(value)


def test_equal_configs_are_equal_texts() -> None:
    assert list(plain_config({"b": 1, "a": 2})) == ["a", "b"]
    assert fingerprint({"b": 1, "a": 2}) == fingerprint({"a": 2, "b": 1})


def test_the_key_of_a_scenario_tells_all_its_parts() -> None:
    one = Scenario("bc-kron", "skx-numa", "1:8", 12)
    assert one.key == "bc-kron/skx-numa/1:8/12t/2MiB"
    others = [
        Scenario("bc-urand", "skx-numa", "1:8", 12),
        Scenario("bc-kron", "spr-cxl", "1:8", 12),
        Scenario("bc-kron", "skx-numa", "1:4", 12),
        Scenario("bc-kron", "skx-numa", "1:8", 8),
        Scenario("bc-kron", "skx-numa", "1:8"),
        Scenario("bc-kron", "skx-numa", "1:8", 12, 4096),
        Scenario("bc-kron", "skx-numa", "1:8", 12, contention=(Contention(0, 5.0, 0.0),)),
        Scenario("bc-kron", "skx-numa", "1:8", 12, contention=(Contention(1, 5.0, 0.0),)),
    ]
    assert len({one.key, *(other.key for other in others)}) == 9
    for scenario in (one, *others):
        assert Scenario.parse(json.loads(json.dumps(scenario.document()))) == scenario
        assert scenario.seed_name == scenario.key


def test_seeds_do_not_depend_on_where_files_lie() -> None:
    here = Scenario("/home/a/mine.yaml", "/home/a/rack.yaml", "1:8")
    there = Scenario("/mnt/b/mine.yaml", "/mnt/b/rack.yaml", "1:8")
    assert here.key != there.key
    assert here.seed_name == there.seed_name == Scenario("mine", "rack", "1:8").key


@given(st.floats(1e-9, 1e12))
def test_costs_are_logs_and_lower_is_better(value: float) -> None:
    for direction, sign in (("minimize", 1.0), ("maximize", -1.0)):
        objective = Objective("m", direction)  # type: ignore[arg-type]
        cost, worse = objective.cost({"m": value}), objective.cost({"m": value * 2.0**sign})
        assert cost is not None
        assert worse is not None
        assert worse - cost == pytest.approx(math.log(2.0))
        assert objective.value(cost) == pytest.approx(value)


@pytest.mark.parametrize("metrics", [{}, {"m": 0.0}, {"m": -1.0}, {"m": math.nan}, {"m": math.inf}])
def test_a_metric_without_a_log_has_no_cost(metrics: dict[str, float]) -> None:
    assert Objective("m", "minimize").cost(metrics) is None


def test_seeds_differ_and_stay_exact_in_json_readers() -> None:
    seeds = [derive_seed(1, "cell", "search", number) for number in range(2000)]
    assert len(set(seeds)) == 2000
    assert max(seeds) < 2**53
    # The same in every version, or no campaign of an older one could be resumed.
    assert derive_seed(1, "a") == 1128178562178139


@pytest.mark.parametrize(
    "module",
    ["trial", "backend", "events", "journal", "loop", "plan", "tracking", "optimiser.base", "validation"],
)
def test_the_core_starts_without_the_heavy_libraries(module: str) -> None:
    heavy = "('smac', 'mlflow', 'sklearn', 'ConfigSpace', 'matplotlib', 'pyarrow', 'scipy')"
    code = f"import sys, tiertune.tuner.{module}; print([m for m in {heavy} if m in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
