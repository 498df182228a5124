"""A play ends, whatever its hosts do; Ansible is made up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ansible_runner
import pytest

from tiertune.tuner.fleet.play import Play


@pytest.fixture(autouse=True)
def hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with a host whose disk has died: the connection lives, and nothing comes of it."""

    def run(*, cancel_callback: Callable[[], bool], **_: Any) -> SimpleNamespace:
        deadline = time.monotonic() + 30
        while not cancel_callback():
            assert time.monotonic() < deadline, "it would run for ever"
            time.sleep(0.01)
        return SimpleNamespace(status="canceled", rc=254)

    monkeypatch.setattr(ansible_runner, "run", run)


def test_a_play_that_hangs_is_ended_and_says_so(tmp_path: Path) -> None:
    played = Play("trial.yml", tmp_path, "tiertune_trial", "a", within_s=0.1).run()
    assert (played.cancelled, played.ended) == (False, False)
    assert played.message == "it did not end within 0.1 s"


def test_a_play_that_is_cancelled_is_no_fault_of_its_host(tmp_path: Path) -> None:
    play = Play("trial.yml", tmp_path, "tiertune_trial", "a")
    threading.Timer(0.1, play.cancel).start()
    played = play.run()
    assert (played.cancelled, played.message) == (True, "")
