"""The way from default to tuned on gains that are known."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tiertune.tuner.explanation.ablation import FURTHER, Gains, rollout

KNOBS = list("abcdef")


def of(law: Callable[[frozenset[str]], float]) -> Gains:
    def gains(sets: Sequence[frozenset[str]]) -> list[float]:
        return [law(one) for one in sets]

    return gains


def test_the_few_that_carry_come_first_by_size() -> None:
    worth = {"a": 0.001, "b": 0.3, "c": 0.002, "d": 0.69, "e": 0.004, "f": 0.003}
    path = rollout(KNOBS, of(lambda one: sum(worth[knob] for knob in one)), 0.95)
    assert path == ["d", "b", "e", "f"]
    assert len(path) == 2 + FURTHER


def test_two_that_help_only_together_are_found_from_behind() -> None:
    def law(one: frozenset[str]) -> float:
        # Alone, every other knob looks better than one of the pair.
        return float({"e", "f"} <= one) + 0.001 * len(one & set("abcd"))

    path = rollout(KNOBS, of(law), 0.95)
    assert set(path[:2]) == {"e", "f"}


def test_what_a_greedy_start_chose_in_vain_is_given_back() -> None:
    def law(one: frozenset[str]) -> float:
        # a is best alone, and worth nothing beside b and c.
        return 1.0 if {"b", "c"} <= one else 0.6 if "a" in one else 0.5 * len(one & {"b", "c"})

    assert set(rollout(KNOBS, of(law), 0.95)[:2]) == {"b", "c"}


def test_where_all_are_needed_all_are_there() -> None:
    assert sorted(rollout(KNOBS, of(lambda one: float(len(one))), 0.95)) == KNOBS


def test_of_two_that_stand_in_for_one_another_one_stays() -> None:
    def law(one: frozenset[str]) -> float:
        # Each of c and d can go alone, both cannot.
        return float("e" in one and bool(one & {"c", "d"}))

    path = rollout(KNOBS, of(law), 0.95)
    assert "e" in path[:2]
    assert len(set(path[:2]) & {"c", "d"}) == 1


def test_of_many_idle_knobs_most_go_at_once() -> None:
    asked: set[frozenset[str]] = set()

    def gains(sets: Sequence[frozenset[str]]) -> list[float]:
        asked.update(sets)
        return [float("k7" in one) for one in sets]

    many = [f"k{number}" for number in range(16)]
    assert rollout(many, gains, 0.95)[0] == "k7"
    assert len(asked) < 16 * 17 / 2  # what leaving one after another would ask for, to begin with


def test_what_does_not_run_is_no_step() -> None:
    def law(one: frozenset[str]) -> float:
        return float("-inf") if "b" in one and "a" not in one else float({"a", "b"} <= one)

    path = rollout(KNOBS, of(law), 0.95)
    assert path[:2] == ["a", "b"]


def test_without_a_gain_there_is_no_way() -> None:
    assert rollout(KNOBS, of(lambda one: -0.1 * len(one)), 0.95) == []
    assert rollout([], of(lambda one: 0.0), 0.95) == []
