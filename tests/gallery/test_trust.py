"""What transfer tests say of carrying a configuration, and when figures are stale."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from tests.gallery.entries import HERE, PLAIN, carried, entry_of, made_by
from tiertune.tuner.gallery.answer import answer, stale_entries
from tiertune.tuner.gallery.definition import Gallery, Part
from tiertune.tuner.gallery.staleness import Now, staleness
from tiertune.tuner.gallery.trust import trust_in

MACHINE: list[Part] = ["machine"]
BOTH: list[Part] = ["machine", "ratio"]


def test_pairs_that_differ_in_the_same_parts_alone_are_taken() -> None:
    moves = {(1, 2): (MACHINE, 0.8), (2, 1): (MACHINE, 1.0), (1, 3): (BOTH, 0.1)}
    found = trust_in([carried(moves)], "hemem", MACHINE, HERE)
    assert (found.pairs, found.alone, found.worse, found.failed) == (2, True, 1, 0)
    assert found.kept == pytest.approx(math.sqrt(0.8))
    assert found.lowest == pytest.approx(0.8)
    assert (found.low, found.high) == (None, None)
    assert found.told == (
        "2 configurations carried to another machine kept 89.4 % of the performance of what is tuned there,"
        " the worst 80 %; 1 of them worse than the default"
    )


def test_where_there_are_none_those_that_differ_in_more_are_taken() -> None:
    found = trust_in([carried({(1, 3): (BOTH, 0.95), (1, 2): (MACHINE, 0.5)})], "hemem", ["ratio"], HERE)
    assert (found.pairs, found.alone) == (1, False)
    assert found.kept == pytest.approx(0.95)
    assert "carried to another ratio, with more that differed, kept 95 %" in found.told


def test_what_nobody_tested_is_said() -> None:
    test = carried({(1, 2): (MACHINE, 0.9)})
    threads: list[Part] = ["threads"]
    for wanted, tests, space in (
        (threads, [test], "hemem"),
        (MACHINE, [test], "wide"),
        (MACHINE, [], "hemem"),
    ):
        found = trust_in(tests, space, wanted, HERE)
        assert (found.pairs, found.kept) == (0, None)
        assert found.told == f"nobody has tested how far configurations carry over to another {wanted[0]}"


def test_an_interval_is_over_contexts_and_the_mean_is_in_it() -> None:
    shares = {1: 0.99, 2: 0.9, 3: 0.95, 4: 0.8}
    moves = {(a, b): (MACHINE, shares[a]) for a in shares for b in shares if a != b}
    found = trust_in([carried(moves)], "hemem", MACHINE, HERE)
    assert found.low is not None
    assert found.high is not None
    assert found.kept is not None
    assert found.low < found.kept < found.high
    # Twelve pairs of four contexts tell less than twelve that are independent.
    spread = (found.high - found.low) / 2
    assert spread > 2.2 * 0.08 / math.sqrt(12)
    assert "(95 % interval " in found.told


def test_equal_shares_leave_no_spread() -> None:
    moves = {(a, b): (MACHINE, 0.9) for a in range(1, 5) for b in range(1, 5) if a != b}
    found = trust_in([carried(moves)], "hemem", MACHINE, HERE)
    assert found.low == found.high == pytest.approx(0.9)


def test_failures_are_counted_and_kept_out_of_the_mean() -> None:
    found = trust_in([carried({(1, 2): (MACHINE, None), (2, 1): (MACHINE, 0.9)})], "hemem", MACHINE, HERE)
    assert (found.pairs, found.failed) == (2, 1)
    assert found.kept == pytest.approx(0.9)
    assert "; 1 failed; none of them worse" in found.told
    all_failed = trust_in([carried({(1, 2): (MACHINE, None)})], "hemem", MACHINE, HERE)
    assert all_failed.told == "1 configuration carried to another machine failed there"


def test_a_pair_that_two_tests_have_counts_once() -> None:
    old, new = carried({(1, 2): (MACHINE, 0.5)}), carried({(1, 2): (MACHINE, 0.9)})
    found = trust_in([old, new], "hemem", MACHINE, HERE)
    assert found.pairs == 1
    assert found.kept == pytest.approx(0.9)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ({}, ""),
        ({"tiertune": "0.0.9"}, "measured by tiertune 0.0.9 with engine 0.1.0, this is tiertune 0.1.0"),
        ({"engine": "0.0.9"}, "measured by tiertune 0.1.0 with engine 0.0.9"),
        ({"builds": ["abc"]}, "measured by engine 0.1.0 of sources abc, this one is of 29f890f38bdf5de0"),
        (
            {"builds": ["29f890f38bdf5de0", "abc"]},
            "measured by engine 0.1.0 of sources 29f890f38bdf5de0 and ",
        ),
        ({"builds": []}, "nothing says by which sources"),
    ],
)
def test_what_something_else_measured_is_stale(made: dict[str, object], said: str) -> None:
    found = staleness(made_by(**made), HERE)
    assert found.startswith(said)
    assert bool(found) == bool(said)


def test_entries_and_tests_are_both_looked_at() -> None:
    gallery = Gallery(
        name="hemem",
        entries=[entry_of(PLAIN), entry_of(PLAIN, space="wide", made=made_by(builds=["abc"]))],
        tests=[carried({(1, 2): (MACHINE, 0.9)}, engine="0.0.9")],
    )
    stale = stale_entries([gallery], HERE)
    assert [one["what"] for one in stale] == [
        "bc-kron skx-numa 1:8 12t 2MiB alone",
        "transfer test of hemem",
    ]
    everything = stale_entries([gallery], Now("0.2.0", "0.1.0", HERE.build))
    assert len(everything) == 3
    wanted = replace(PLAIN, machine="x", machine_digest="x")
    said = answer(wanted, [gallery], HERE)
    assert said["trust"]["measured"]["stale"].startswith("measured by tiertune 0.1.0 with engine 0.0.9")
    assert said["stale"] == ""


def test_a_default_is_nothing_to_carry() -> None:
    gallery = Gallery(name="hemem", entries=[entry_of(PLAIN, improved=False)])
    exact = answer(PLAIN, [gallery], HERE)
    assert exact["exact"]
    assert exact["trust"]["told"].startswith(
        "tuned in this very context, on a modelled machine; its gain was"
    )
    other = replace(PLAIN, threads=4)
    assert "there is nothing to carry" in answer(other, [gallery], HERE)["trust"]["told"]
