"""A host gets time to settle, unless its trials are to end."""

from __future__ import annotations

import time

import pytest

from tiertune.tuner.backend import BackendLost
from tiertune.tuner.live.stop import Stop


def settled_s(stop: Stop) -> float:
    began = time.monotonic()
    stop.settle()
    return time.monotonic() - began


def test_a_host_is_given_its_time_until_a_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tiertune.tuner.live.stop.SETTLE_S", 0.3)
    stop = Stop()
    stop.keep_going()
    assert settled_s(stop) >= 0.3
    stop.set()
    monkeypatch.setattr("tiertune.tuner.live.stop.SETTLE_S", 600.0)
    assert settled_s(stop) < 60
    with pytest.raises(BackendLost, match="tiertune resume"):
        stop.keep_going()
