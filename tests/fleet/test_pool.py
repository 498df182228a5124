"""Who gets which host, and what happens to those who wait for one that is lost."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from tests.tuner.toy import SCENARIO
from tiertune.tuner.backend import BackendLost
from tiertune.tuner.cli.places import _begun
from tiertune.tuner.fleet.inventory import Host
from tiertune.tuner.fleet.pool import Pool
from tiertune.tuner.journal import Journal
from tiertune.tuner.trial import Measurement, Status, Trial

A, B, C = Host("a"), Host("b"), Host("c")
TRIAL = Trial("toy", "cell", 0, SCENARIO, "toy", {}, seed=1)


def judged(seed: int) -> Trial:
    return replace(TRIAL, purpose="validation", seed=seed)


def test_searches_spread_over_free_hosts() -> None:
    pool = Pool([B, A])
    with pool.lent(TRIAL) as first, pool.lent(TRIAL) as second:
        assert (first, second) == (A, B)


def test_a_host_runs_one_trial_at_a_time() -> None:
    pool, order = Pool([A]), []
    inside = threading.Event()

    def second() -> None:
        with pool.lent(TRIAL):
            order.append("second")

    with pool.lent(TRIAL):
        other = threading.Thread(target=second)
        other.start()
        inside.wait(0.05)
        order.append("first")
    other.join(5)
    assert order == ["first", "second"]


def test_a_block_stays_on_its_host_and_blocks_take_turns() -> None:
    pool, hosts = Pool([A, B]), []
    for seed in (7, 7, 8, 8, 9, 7):
        with pool.lent(judged(seed)) as host:
            hosts.append(host.name)
    assert hosts == ["a", "a", "b", "b", "a", "a"]


def test_a_block_moves_when_its_host_is_lost() -> None:
    pool = Pool([A, B])
    with pool.lent(judged(7)) as host:
        assert host == A
    assert pool.set_aside(A, "unplugged")
    assert not pool.set_aside(A, "once more")
    with pool.lent(judged(7)) as host:
        assert host == B
    assert pool.aside == {"a": "unplugged"}
    assert pool.in_use() == [B]


def test_a_block_that_was_begun_before_a_stop_goes_on_on_its_host(tmp_path: Path) -> None:
    """`resume` compared the default of one host with the candidate of another."""
    path = tmp_path / "toy/journal.sqlite"
    path.parent.mkdir()
    with Journal(path) as journal:
        for number, (trial, host) in enumerate([(judged(7), "b"), (judged(8), "gone"), (TRIAL, "b")]):
            begun = replace(trial, number=number)
            journal.start(begun, ask_cpu_s=0.0, environment=None, decision="")
            journal.finish(begun, Measurement(Status.OK, {"x": 1.0}, worker=host), 0.0)
    pool, hosts = Pool([A, B], _begun(tmp_path, "toy")), []
    for seed in (7, 8, 9, 7):
        with pool.lent(judged(seed)) as lent:
            hosts.append(lent.name)
    # The host of the second block is no longer there, and the first block counts for whose turn it is.
    assert hosts == ["b", "a", "a", "b"]
    assert _begun(tmp_path, "other") == {}


def test_whoever_waits_for_a_lost_host_gets_another() -> None:
    pool, got = Pool([A, B]), []
    with pool.lent(judged(7)) as host:

        def second() -> None:
            with pool.lent(judged(7)) as other:
                got.append(other)

        waiting = threading.Thread(target=second)
        waiting.start()
        pool.set_aside(host, "its memory drifts")
        waiting.join(5)
    assert got == [B]


def test_no_host_left_says_why() -> None:
    pool = Pool([A, C])
    pool.set_aside(A, "unplugged")
    pool.set_aside(C, "its kernel died")
    with pytest.raises(BackendLost, match="a: unplugged; c: its kernel died"), pool.lent(TRIAL):
        pass


def test_a_closed_pool_sends_everybody_home() -> None:
    pool, said = Pool([A]), []

    def second() -> None:
        try:
            with pool.lent(TRIAL):
                said.append("a host")
        except BackendLost as error:
            said.append(str(error))

    with pool.lent(TRIAL):
        waiting = threading.Thread(target=second)
        waiting.start()
        pool.close("stopped")
        waiting.join(5)
    assert said == ["stopped"]
