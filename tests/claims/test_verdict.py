"""Verdicts on claims: what is met, what is missed and by what, and what cannot be checked."""

from __future__ import annotations

import math
from typing import Any

import pytest
from pydantic import ValidationError

from tiertune.tuner.claims.definition import Claim
from tiertune.tuner.claims.verdict import Verdict, judge
from tiertune.tuner.sweep.measured import Group, Spread
from tiertune.tuner.sweep.row import Coordinates

AT = Coordinates("", "notier", "default", "w", "none", "m", "1:1", 2, "none", 4096, -1)


def group(system: str, slowdown: float, fast: str = "1:1") -> Group:
    at = Coordinates(**{**AT.__dict__, "system": system, "fast": fast})
    return Group(at, {"ok": 3}, {"slowdown": Spread(3, slowdown, slowdown, slowdown)}, {})


GROUPS = [group("a", 1.0), group("b", 2.0), group("c", 2.1), group("d", 4.0)]


def claim(*checks: dict[str, Any], **more: Any) -> Claim:
    axes = {"systems": ["a"], "workloads": ["w"], "machines": ["m"], "ratios": ["1:1"]}
    given = {"id": "X-1", "paper": "p", "where": "w", "statement": "s", "sweep": axes, "checks": list(checks)}
    return Claim.model_validate({**given, **more})


@pytest.mark.parametrize(
    ("check", "met"),
    [
        ({"of": {"system": "b"}, "expected": 2.1, "within_pct": 5}, True),
        ({"of": {"system": "b"}, "expected": 2.2, "within_pct": 5}, False),
        ({"of": {"system": "b"}, "least": 2, "most": 2}, True),
        ({"of": {"system": "b"}, "least": 2.01}, False),
        ({"of": {"system": "b"}, "most": 1.99}, False),
        ({"least": 1}, True),
        ({"most": 3}, False),
        ({"metric": "performance", "of": {"system": "d"}, "expected": 0.25, "within_pct": 0}, True),
        (
            {"kind": "ratio", "of": {"system": "d"}, "to": {"system": "b"}, "expected": 2, "within_pct": 1},
            True,
        ),
        ({"kind": "ratio", "of": {"system": "b"}, "to": {"system": "d"}, "least": 1}, False),
        ({"kind": "ratio", "of": {"take": "highest"}, "to": {"take": "lowest"}, "least": 4, "most": 4}, True),
        ({"kind": "ratio", "of": {"take": "highest"}, "to": {"take": "median"}, "most": 1.9}, False),
        ({"of": {"take": "mean"}, "expected": 2.275, "within": 0.001}, True),
        ({"of": {"take": "mean"}, "expected": 2.4, "within": 0.1}, False),
        ({"kind": "difference", "of": {"system": "d"}, "to": {"system": "b"}, "least": 2, "most": 2}, True),
        ({"kind": "difference", "of": {"system": "d"}, "to": {"system": "b"}, "most": 1.9}, False),
        # d leads c by 1.9 and b leads a by 1: 1.9 times as much.
        (
            {
                "kind": "difference",
                "of": {"system": "d"},
                "to": {"system": "c"},
                "against": {"of": {"system": "b"}, "to": {"system": "a"}},
                "expected": 1.9,
                "within": 1e-9,
            },
            True,
        ),
        (
            {
                "kind": "ratio",
                "of": {"system": "d"},
                "to": {"system": "b"},
                "against": {"of": {"system": "b"}, "to": {"system": "a"}},
                "least": 1.01,
            },
            False,
        ),
        # Nothing is so many times as much as what is behind.
        (
            {
                "kind": "difference",
                "of": {"system": "d"},
                "to": {"system": "c"},
                "against": {"of": {"system": "a"}, "to": {"system": "b"}},
                "most": 100,
            },
            False,
        ),
        # The best of all rows is a, whose slowdown is the lowest.
        ({"of": {"best_by": "performance"}, "most": 1}, True),
        ({"of": {"best_by": "slowdown"}, "most": 1}, False),
        ({"per": "slowdown", "of": {"take": "lowest"}, "least": 1, "most": 1}, True),
        ({"kind": "trend", "over": "system"}, True),
        ({"kind": "trend", "over": "system", "direction": "falling"}, False),
        ({"kind": "correlation", "beside": "slowdown", "least": 0.99}, True),
        ({"kind": "correlation", "beside": "performance", "least": -0.9}, False),
        (
            {
                "kind": "order",
                "rows": [[{"system": "a"}], [{"system": "c"}, {"system": "b"}], [{"system": "d"}]],
            },
            True,
        ),
        ({"kind": "order", "rows": [[{"system": "b"}], [{"system": "a"}]]}, False),
        # Strict between groups.
        ({"kind": "order", "rows": [[{"system": "b"}], [{"system": "b"}]]}, False),
    ],
)
def test_checks(check: dict[str, Any], met: bool) -> None:
    judged = judge(claim({"kind": "value", "metric": "slowdown", **check}, if_missed="why"), GROUPS)
    assert judged.verdict is (Verdict.MET if met else Verdict.MISSED)
    assert judged.reason == ("" if met else "why")
    assert judged.measured
    assert judged.expected


LEVELS = {"a": (1, 10, 2), "b": (2, 30, 3), "c": (3, 12, 1), "d": (4, 10, 0.5), "e": (5, 40, 4)}
"""Rows whose `told` is `plain` / (0.5 + 2 / `by`) in the row of system a2 and the like, by system."""


def predicted_groups() -> list[Group]:
    found = []
    for name, (_, plain, by) in LEVELS.items():
        told = plain / (0.5 + 2 / by)
        for system, figures in (
            (name, {"plain": plain, "by": by, "twice": 2 * plain / by}),
            (f"{name}2", {"told": told, "cost": plain / by, "one": 1.0}),
        ):
            at = Coordinates(
                **{**AT.__dict__, "system": "new" if system != name else "old", "workload": name}
            )
            spreads = {key: Spread(1, value, value, value) for key, value in figures.items()}
            found.append(Group(at, {"ok": 1}, spreads, {}))
    return found


@pytest.mark.parametrize(
    ("check", "met", "said"),
    [
        # Pearson's of plain (10 30 12 10 40) and told (6.67 25.7 4.8 2.22 40) by hand: 0.993.
        ({"beside": "told", "least": 0.99, "most": 0.995}, True, "of plain = 0.993 over 5 rows"),
        ({"beside": "told", "least": 0.995}, False, "0.993"),
        (
            {"beside": "told", "corrected_by": "by", "correction": "saturating", "least": 0.9999},
            True,
            "times 1 / (0.5 + 2 / it)) 1 over",
        ),
        (
            {"beside": "told", "corrected_by": "by", "correction": "saturating", "gain": 0.005},
            True,
            "corrected",
        ),
        (
            {"beside": "told", "corrected_by": "by", "correction": "saturating", "gain": 0.01},
            False,
            "corrected",
        ),
        ({"beside": "cost", "corrected_by": "by", "least": 0.9999}, True, "(divided by it) 1 over"),
        ({"beside": "cost", "corrected_by": "by", "correction": "quotient", "gain": 2}, False, "divided"),
        # What does not vary goes with nothing.
        ({"beside": "one", "least": -1}, False, "= nan"),
        ({"beside": "told", "beside_per": "one", "per": "by", "most": 0.98}, True, "of plain / by = "),
    ],
)
def test_a_prediction_is_of_other_rows(check: dict[str, Any], met: bool, said: str) -> None:
    rows = {"kind": "prediction", "metric": "plain", "of": {"system": "old"}, "to": {"system": "new"}}
    given = {"least": -1, **rows, **check}
    judged = judge(claim(given), predicted_groups())
    assert judged.verdict is (Verdict.MET if met else Verdict.MISSED)
    assert said in judged.measured


def test_a_prediction_is_of_the_same_rows_where_no_others_are_named() -> None:
    given = {"kind": "prediction", "metric": "plain", "per": "by", "beside": "twice", "of": {"system": "old"}}
    assert judge(claim({**given, "least": 0.9999}), predicted_groups()).verdict is Verdict.MET


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"of": {"workload": "a"}}, "is 2 rows; a prediction needs four or more"),
        ({"of": {"system": "old"}, "to": {"system": "else"}}, "has no row"),
        ({"of": {"system": "old"}, "to": {"system": "new"}, "corrected_by": "none"}, "has no 'none'"),
    ],
)
def test_what_a_prediction_lacks_is_said(more: dict[str, Any], why: str) -> None:
    given = {"kind": "prediction", "metric": "plain", "beside": "told", "least": 0, **more}
    judged = judge(claim(given), predicted_groups())
    assert judged.verdict is Verdict.NOT_CHECKABLE
    assert why in judged.reason


@pytest.mark.parametrize(("first", "met"), [("a", True), ("c", False)])
def test_an_order_of_ratios_to_other_rows(first: str, met: bool) -> None:
    last = "c" if first == "a" else "a"
    rows = [[{"system": name, "take": "highest", "divided_by": {"system": "b"}}] for name in (first, last)]
    judged = judge(claim({"kind": "order", "metric": "slowdown", "rows": rows}), RATIOS)
    assert judged.verdict is (Verdict.MET if met else Verdict.MISSED)
    # a is 1/2 and 2/1 of b, c is 4/2 and 8/1.
    assert judged.measured == "slowdown: highest of a / b 2 < highest of c / b 8"


RATIOS = [
    group("a", 1.0, "1:1"),
    group("b", 2.0, "1:1"),
    group("c", 4.0, "1:1"),
    group("a", 2.0, "1:2"),
    group("b", 1.0, "1:2"),
    group("c", 8.0, "1:2"),
]


@pytest.mark.parametrize(
    ("together", "kind", "of", "figure"),
    [
        ("mean", "ratio", {"system": "b"}, 1.25),
        ("geomean", "ratio", {"system": "b"}, 1.0),
        ("lowest", "ratio", {"system": "b"}, 0.5),
        ("highest", "ratio", {"system": "b"}, 2.0),
        ("share_above", "ratio", {"system": "b"}, 0.5),
        ("mean_above", "ratio", {"system": "b"}, 2.0),
        ("mean", "difference", {"system": "b"}, 0.0),
        ("mean_above", "difference", {"system": "b"}, 1.0),
        ("share_above", "difference", {"system": "c"}, 1.0),
        ("geomean", "ratio", {"systems": ["b", "c"]}, 2.0),
        ("mean", "ratio", {"systems": ["b", "c"], "take": "mean"}, 2.625),
    ],
)
def test_figures_of_several_places_become_one(
    together: str, kind: str, of: dict[str, Any], figure: float
) -> None:
    given = {"kind": kind, "metric": "slowdown", "each": ["fast"], "of": of, "to": {"system": "a"}}
    for least, most, met in [(figure - 1e-9, figure + 1e-9, True), (figure + 0.01, figure + 1, False)]:
        judged = judge(claim({**given, "together": together, "least": least, "most": most}), RATIOS)
        assert judged.verdict is (Verdict.MET if met else Verdict.MISSED)
        assert "1:1" in judged.measured
        assert "1:2" in judged.measured
        assert len(judged.findings) == 1


def test_nothing_above_is_no_distance() -> None:
    behind = {"kind": "difference", "metric": "slowdown", "of": {"system": "a"}, "to": {"system": "c"}}
    judged = judge(claim({**behind, "each": ["fast"], "together": "mean_above", "most": 0}), RATIOS)
    assert judged.verdict is Verdict.MET


@pytest.mark.parametrize(
    ("settled", "verdict"), [(10.0, Verdict.MET), (math.inf, Verdict.MISSED), (None, Verdict.NOT_CHECKABLE)]
)
def test_what_has_not_settled_takes_for_ever(settled: float | None, verdict: Verdict) -> None:
    # The two seeds that settled have a lower median than all three; where none was measured, none counts.
    spreads = {"last_change_s": Spread(3, 5.0, 5.0, 5.0), "convergence_s": Spread(2, 1.0, 1.0, 1.0)}
    check = {"kind": "value", "metric": "convergence_s", "least": 5, "most": 20}
    judged = judge(claim(check), [Group(AT, {"ok": 3}, spreads, {}, settled=settled)])
    assert judged.verdict is verdict
    assert ("inf" in judged.measured) is (verdict is Verdict.MISSED)


def test_a_run_without_a_change_has_no_convergence() -> None:
    check = {"kind": "value", "metric": "convergence_s", "most": 20}
    assert judge(claim(check), [group("a", 1.0)]).verdict is Verdict.NOT_CHECKABLE


def placed(figures: dict[str, float], fast: str) -> Group:
    at = Coordinates(**{**AT.__dict__, "fast": fast})
    return Group(at, {"ok": 3}, {name: Spread(3, value, value, value) for name, value in figures.items()}, {})


@pytest.mark.parametrize(
    ("values", "slack", "met"),
    [
        ([1.0, 2.0, 3.0], 0, True),
        ([1.0, 2.0, 1.95], 0, False),
        ([1.0, 2.0, 1.95], 5, True),
        ([1.0, 1.0, 1.0], 5, False),
    ],
)
def test_a_trend_may_step_back_a_little_but_has_to_arrive(
    values: list[float], slack: float, met: bool
) -> None:
    groups = [placed({"slowdown": value}, str(place)) for place, value in enumerate(values)]
    check = {"kind": "trend", "metric": "slowdown", "over": "fast", "slack_pct": slack}
    assert (judge(claim(check), groups).verdict is Verdict.MET) is met


@pytest.mark.parametrize(
    ("throughputs", "met"),
    [
        ([1.0, 3.0, 2.0, 1.0], True),
        ([3.0, 2.0, 1.0, 0.5], True),  # a step from where they meet
        ([1.0, 2.0, 2.5, 3.0], False),  # two steps
        ([1.0, 3.0, 2.0, 2.5], False),  # two peaks
    ],
)
def test_a_balance_is_one_peak_where_two_figures_meet(throughputs: list[float], met: bool) -> None:
    fast_ns = [100.0, 150.0, 200.0, 300.0]
    groups = [
        placed({"throughput_mops": mops, "fast_latency_ns": ns, "slow_latency_ns": 150.0}, str(place))
        for place, (mops, ns) in enumerate(zip(throughputs, fast_ns, strict=True))
    ]
    check = {
        "kind": "balance",
        "metric": "throughput_mops",
        "beside": "fast_latency_ns",
        "per": "slow_latency_ns",
        "over": "fast",
    }
    assert (judge(claim(check), groups).verdict is Verdict.MET) is met


def test_a_trend_needs_one_row_for_each_value() -> None:
    check = {"kind": "trend", "metric": "slowdown", "over": "fast"}
    judged = judge(claim(check), GROUPS)
    assert (judged.verdict, "one for each" in judged.reason) == (Verdict.NOT_CHECKABLE, True)


def test_one_failed_check_is_a_miss_and_is_what_is_told() -> None:
    good = {"kind": "value", "metric": "slowdown", "of": {"system": "a"}, "most": 1}
    bad = {"kind": "value", "metric": "slowdown", "of": {"system": "d"}, "most": 3}
    judged = judge(claim(good, bad), GROUPS)
    assert judged.verdict is Verdict.MISSED
    assert judged.measured == "slowdown d = 4"
    assert judged.expected == "slowdown d: at most 3"


def test_a_miss_by_little_does_not_look_like_its_bound() -> None:
    first = claim({"kind": "value", "metric": "slowdown", "of": {"system": "a"}, "least": 1})
    below, above = judge(first, [group("a", 0.9999934)]), judge(first, [group("a", 1.0000066)])
    assert (below.verdict, below.measured) == (Verdict.MISSED, "slowdown a = 0.99999")
    assert (above.verdict, above.measured) == (Verdict.MET, "slowdown a = 1")
    rows = {"kind": "prediction", "metric": "plain", "of": {"system": "old"}, "to": {"system": "new"}}
    almost = judge(claim({**rows, "beside": "told", "least": 0.993}), predicted_groups())
    assert (almost.verdict, almost.measured) == (
        Verdict.MISSED,
        "correlation with told of plain = 0.9926 over 5 rows",
    )


@pytest.mark.parametrize(("allowed", "verdict"), [(0, Verdict.MISSED), (1, Verdict.MET)])
def test_each_place_is_checked_and_some_may_fail(allowed: int, verdict: Verdict) -> None:
    groups = [*GROUPS, group("a", 3.0, "1:8"), group("b", 2.5, "1:8")]
    check = {
        "kind": "order",
        "metric": "slowdown",
        "rows": [[{"system": "a"}], [{"system": "b"}]],
        "each": ["fast"],
        "misses_allowed": allowed,
    }
    judged = judge(claim(check), groups)
    assert judged.verdict is verdict
    assert ("1:1: " in judged.measured) == (verdict is Verdict.MET)
    assert "1:8: " in judged.measured


def test_what_is_not_there_is_not_checkable_and_says_why() -> None:
    check = {"kind": "value", "metric": "slowdown", "of": {"system": "e"}, "most": 3}
    failed = Group(
        Coordinates(**{**AT.__dict__, "system": "f"}), {"crashed": 1}, {}, {("crashed", "it broke"): 1}
    )
    judged = judge(claim(check), [*GROUPS, failed])
    assert (judged.verdict, judged.reason) == (
        Verdict.NOT_CHECKABLE,
        "the sweep has no row 'e'; f: it broke",
    )
    missing = {"kind": "value", "metric": "promotions", "of": {"system": "a"}, "most": 3}
    assert "no 'promotions'" in judge(claim(missing), GROUPS).reason
    ambiguous = {
        "kind": "ratio",
        "metric": "slowdown",
        "of": {"system": "a"},
        "to": {"fast": "1:1"},
        "most": 3,
    }
    assert "4 rows" in judge(claim(ambiguous), GROUPS).reason


def test_seeds_that_failed_are_not_left_out_of_a_median() -> None:
    check = {"kind": "value", "metric": "slowdown", "most": 3}
    spreads = {"slowdown": Spread(2, 1.0, 1.0, 1.0)}
    lost = Group(AT, {"ok": 2, "crashed": 1}, spreads, {("crashed", "it broke"): 1})
    judged = judge(claim(check), [lost])
    assert judged.verdict is Verdict.NOT_CHECKABLE
    assert judged.reason == "notier was not measured on every seed (1 crashed); notier: it broke"
    lacking = judge(claim(check), [Group(AT, {"ok": 3}, spreads, {})])
    assert lacking.reason == "notier has 'slowdown' on 2 of 3 seeds only"


NOTHING = [placed({"promotions": 0.0, "demotions": 0.0, "slowdown": 2.0}, fast) for fast in ("1:1", "1:2")]


@pytest.mark.parametrize(
    "check",
    [
        {"kind": "value", "per": "demotions", "least": 2},
        {"kind": "value", "per": "demotions", "of": {"take": "lowest"}, "most": 2},
        {"kind": "ratio", "of": {"fast": "1:1"}, "to": {"fast": "1:2"}, "least": 2},
        {"kind": "value", "per": "demotions", "each": ["fast"], "together": "highest", "least": 2},
        {"kind": "value", "per": "demotions", "each": ["fast"], "together": "share_above", "most": 2},
        {"kind": "order", "per": "demotions", "rows": [[{"fast": "1:1"}], [{"fast": "1:2"}]]},
        {"kind": "trend", "per": "demotions", "over": "fast"},
    ],
)
def test_nothing_is_no_multiple_of_nothing(check: dict[str, Any]) -> None:
    judged = judge(claim({"metric": "promotions", **check}), NOTHING)
    assert judged.verdict is Verdict.MISSED


def test_figures_that_cannot_meet_are_not_checkable() -> None:
    check = {
        "kind": "balance",
        "metric": "slowdown",
        "beside": "promotions",
        "per": "slowdown",
        "over": "fast",
    }
    assert judge(claim(check), NOTHING).reason == "promotions / slowdown is 0 in a row, where nothing meets"


@pytest.mark.parametrize(("metric", "best"), [("slowdown", "low"), ("throughput_mops", "high")])
def test_the_best_config_is_the_lowest_where_lower_is_better(metric: str, best: str) -> None:
    other = {"low": "high", "high": "low"}[best]
    groups = [
        Group(
            Coordinates(**{**AT.__dict__, "workload": workload, "config": config}),
            {"ok": 1},
            {metric: Spread(1, value, value, value)},
            {},
        )
        for workload, values in (
            ("w", {"low": 1.0, "high": 2.0, "mid": 1.5}),
            ("v", {other: 1.2, "mid": 1.1}),
        )
        for config, value in values.items()
    ]
    check = {"kind": "optima", "metric": metric, "over": "workload", "least": 1}
    told = judge(claim(check), groups).measured
    assert told.startswith(f"best {metric} over workload: w: {best}, 2 times the worst")


@pytest.mark.parametrize(("values", "met"), [([3.0, 1.0, 2.0], True), ([1.0, 3.0, 2.0], False)])
def test_the_best_row_is_the_lowest_where_lower_is_better(values: list[float], met: bool) -> None:
    figures = [
        {"slowdown": value, "fast_latency_ns": 100.0 * gap, "slow_latency_ns": 100.0}
        for value, gap in zip(values, (0.5, 1.0, 2.0), strict=True)
    ]
    groups = [placed(one, f"1:{place + 1}") for place, one in enumerate(figures)]
    check = {"kind": "balance", "metric": "slowdown", "over": "fast"}
    latencies = {"beside": "fast_latency_ns", "per": "slow_latency_ns"}
    assert (judge(claim({**check, **latencies}), groups).verdict is Verdict.MET) is met


def test_a_check_of_which_all_may_fail_checks_nothing() -> None:
    check = {"kind": "value", "metric": "slowdown", "of": {"system": "d"}, "most": 1, "each": ["fast"]}
    judged = judge(claim({**check, "misses_allowed": 1}), GROUPS)
    assert judged.verdict is Verdict.NOT_CHECKABLE
    assert judged.reason == "misses_allowed: 1 would let all 1 figures of 'slowdown' fail"


@pytest.mark.parametrize(
    ("check", "said"),
    [
        (
            {"kind": "value", "to": {"system": "a"}, "most": 1},
            "to: is for kinds ratio, difference and prediction",
        ),
        ({"kind": "trend", "over": "fast", "least": 9}, "least: is for kinds value, ratio, difference"),
        ({"kind": "value", "slack_pct": 5, "most": 1}, "slack_pct: is for kind trend, not value"),
        ({"kind": "order", "rows": [[{}], [{}]], "most": 1}, "most: is for kinds"),
        ({"kind": "order", "rows": [[{}], []]}, "rows.*is an empty group"),
        (
            {"kind": "value", "least": 5, "most": 2},
            "most: leaves nothing that would do: at least 5 and at most 2",
        ),
        ({"kind": "value", "least": 5, "within_pct": 2}, "within_pct: is of 'expected'"),
        ({"kind": "value", "least": 5, "each": ["seed"]}, "each: cannot be seed"),
        ({"kind": "trend", "over": "seed"}, "over: cannot be seed"),
    ],
)
def test_keys_that_would_seem_to_be_checked_are_refused(check: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        claim({"metric": "slowdown", **check})


def test_a_claim_may_say_that_it_cannot_be_checked() -> None:
    judged = judge(claim(sweep=None, checks=[], not_checkable="no users here"), [])
    assert (judged.verdict, judged.reason) == (Verdict.NOT_CHECKABLE, "no users here")


def tuned(workload: str, config: str, slowdown: float, threshold: float) -> Group:
    at = Coordinates(**{**AT.__dict__, "workload": workload, "config": config})
    return Group(at, {"ok": 3}, {"slowdown": Spread(3, slowdown, slowdown, slowdown)}, {}, {"hot": threshold})


@pytest.mark.parametrize(
    ("other", "least", "met"),
    [
        ({"low": 3.0, "high": 2.0}, 1.5, True),  # the best of the first is the worst here
        ({"low": 2.0, "high": 3.0}, 1.5, False),  # the same is best in both
        ({"low": 3.0, "high": 2.0}, 1.6, False),  # best and worst are closer than that
    ],
)
def test_optima_are_other_configs_far_from_the_worst(
    other: dict[str, float], least: float, met: bool
) -> None:
    groups = [tuned("first", "low", 1.0, 2.0), tuned("first", "high", 2.0, 8.0)]
    groups += [tuned("second", name, slowdown, 0.0) for name, slowdown in other.items()]
    check = {"kind": "optima", "metric": "performance", "over": "workload", "least": least}
    judged = judge(claim(check), groups)
    assert (judged.verdict == Verdict.MET) is met, judged.measured
    assert "first: low, 2 times the worst" in judged.measured


def test_knobs_are_figures() -> None:
    groups = [tuned("w", "default", 2.0, 8.0), tuned("w", "tuned", 1.0, 2.0)]
    check = {"kind": "order", "metric": "knob.hot", "rows": [[{"config": "tuned"}], [{"config": "default"}]]}
    assert judge(claim(check), groups).verdict == Verdict.MET
    missing = judge(claim({"kind": "value", "metric": "knob.cold", "least": 1}), groups)
    assert missing.verdict == Verdict.NOT_CHECKABLE
    assert "no number for knob cold" in missing.reason
