"""Addresses of schedulers: a wrong one is told at once, one that nobody answers at without a traceback."""

from __future__ import annotations

import gc
import socket
import sys
import threading
from pathlib import Path

import pytest

from tests.cli.small import tiertune, write_small
from tiertune.files import InputError
from tiertune.tuner.backend import BackendLost
from tiertune.tuner.simulation import SimBackend
from tiertune.tuner.spread import address, backend
from tiertune.tuner.spread.address import check_address

WRONG = {
    "foo": "did you mean tcp://foo:8786?",
    "tcp://foo": "did you mean tcp://foo:8786?",
    "tls://foo:0": "did you mean tls://foo:8786?",
    "foo:99999": "did you mean tcp://foo:8786?",
    "http://foo:80": "did you mean tcp://foo:80?",
    "[::1]": "did you mean tcp://[::1]:8786?",
    "::1": "write one as tcp://HOST:8786",
    "foo:bar": "write one as tcp://HOST:8786",
    "": "write one as tcp://HOST:8786",
}


@pytest.mark.parametrize(("given", "said"), WRONG.items())
def test_what_is_no_address_is_told_with_one_that_is(given: str, said: str) -> None:
    with pytest.raises(InputError) as refused:
        check_address("--scheduler", given)
    assert str(refused.value) == f"--scheduler {given}: is no address of a scheduler; {said}"


@pytest.mark.parametrize(
    "given", ["tcp://10.0.0.7:8786", "rack7:8786", "tls://[fe80::1%eth0]:1", "ws://a:2/"]
)
def test_an_address_is_taken(given: str) -> None:
    check_address("--scheduler", given)


def test_commands_refuse_it_before_they_connect(tmp_path: Path) -> None:
    path = write_small(tmp_path)
    for command in (
        ("tune", path, "--scheduler", "foo", "--results", tmp_path / "results"),
        ("tune", path, "--scheduler", "foo", "--results", tmp_path / "results", "--dry-run"),
        ("compare", "compare-small", "--scheduler", "foo", "--results", tmp_path / "results"),
        ("nightly", "nightly", "--scheduler", "foo", "--results", tmp_path / "results"),
        ("worker", "foo"),
    ):
        refused = tiertune(*command)
        assert refused.exit_code == 2, refused.stderr
        assert "foo: is no address of a scheduler; did you mean tcp://foo:8786?" in refused.stderr
    assert not (tmp_path / "results").exists()


@pytest.fixture(params=["nobody", "another program"])
def somewhere(request: pytest.FixtureRequest) -> str:
    """An address without a scheduler."""
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    if request.param == "nobody":
        listening.close()
    else:

        def answer() -> None:
            caller, _ = listening.accept()
            caller.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
            caller.close()
            listening.close()

        threading.Thread(target=answer, daemon=True).start()
    return f"tcp://127.0.0.1:{port}"


def test_where_no_scheduler_answers_that_is_all_that_is_said(
    somewhere: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (address, backend):
        monkeypatch.setattr(module, "CONNECT_S", 1.0)
    lost: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lost.append)
    said: list[str] = []
    with pytest.raises(BackendLost, match=f"no scheduler answers at {somewhere} "):
        backend.DaskBackend(SimBackend(tmp_path), somewhere, {}, 1, tmp_path, said.append)
    gc.collect()
    assert said == [f"looking for the scheduler at {somewhere}"]
    assert lost == []
