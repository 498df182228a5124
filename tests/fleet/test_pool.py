"""Who gets which host, and what happens to those who wait for one that is lost."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from tests.tuner.toy import SCENARIO
from tiertune.tuner.backend import BackendLost
from tiertune.tuner.fleet.inventory import Host
from tiertune.tuner.fleet.pool import Pool
from tiertune.tuner.trial import Trial

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
