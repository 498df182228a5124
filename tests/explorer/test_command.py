"""`tiertune ui` as a command; what its pages do in a browser is tested in tests/host."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.small import tiertune
from tiertune.files import InputError
from tiertune.tuner.cli.ui import _check_port
from tiertune.tuner.explorer import server


@pytest.fixture
def taken() -> Iterator[int]:
    """A port at which somebody listens."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(1)
        yield listening.getsockname()[1]


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Where pages would have been served; nothing listens."""
    calls: list[tuple[str, int]] = []

    def serve(app: object, host: str, port: int, ready: object) -> None:
        calls.append((host, port))
        ready(port or 4321)  # type: ignore[operator]

    monkeypatch.setattr(server, "serve", serve)
    return calls


def test_a_port_that_is_taken_names_the_next_free_one(tmp_path: Path, taken: int) -> None:
    refused = tiertune("ui", "--results", tmp_path, "--port", str(taken))
    assert refused.exit_code == 2
    assert f"--port {taken}: is taken; the next free one is " in refused.stderr
    free = int(refused.stderr.split("next free one is ")[1].split(",")[0])
    assert free > taken
    _check_port("127.0.0.1", free)


def test_it_says_its_address_once_it_listens(tmp_path: Path, served: list[tuple[str, int]]) -> None:
    assert (
        tiertune("ui", "--results", tmp_path, "--port", "0").stdout
        == "http://127.0.0.1:4321/  (Ctrl-C ends it)\n"
    )
    as_json = tiertune("ui", "--results", tmp_path, "--port", "0", "--json")
    assert as_json.stdout == '{"url": "http://127.0.0.1:4321/"}\n'
    assert as_json.stderr == ""
    assert served == [("127.0.0.1", 0)] * 2


def test_another_address_than_loopback_is_warned_of(tmp_path: Path, served: list[tuple[str, int]]) -> None:
    said = tiertune("ui", "--results", tmp_path, "--port", "0", "--host", "0.0.0.0")
    assert said.exit_code == 0
    assert "there is no password" in said.stderr
    assert served == [("0.0.0.0", 0)]


def test_a_port_that_is_taken_meanwhile_is_a_sentence(taken: int) -> None:
    from dash import Dash

    with pytest.raises(InputError, match=f"--port {taken}: nobody can listen there any more"):
        server.serve(Dash("meanwhile"), "127.0.0.1", taken, pytest.fail)


def test_an_address_that_is_not_of_this_machine_is_refused(tmp_path: Path) -> None:
    for host in ("192.0.2.1", "foo.invalid", "foo..invalid"):
        for port in ("8050", "0"):
            refused = tiertune("ui", "--results", tmp_path, "--host", host, "--port", port)
            assert refused.exit_code == 2
            assert f"--host {host}: nobody can listen there (" in refused.stderr
            assert "--port" not in refused.stderr


def test_packages_that_are_missing_are_named_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "dash", None)
    refused = tiertune("ui", "--results", tmp_path)
    assert refused.exit_code == 3
    assert "pip install 'tiertune[ui]'" in refused.stderr


def test_links_to_mlflow_need_an_address_of_pages(tmp_path: Path) -> None:
    refused = tiertune("ui", "--results", tmp_path, "--mlflow-url", "tracking:5000")
    assert refused.exit_code == 2
    assert "the nearest is http://tracking:5000" in refused.stderr


def test_the_address_of_mlflows_pages_is_one_also_in_ipv6(tmp_path: Path) -> None:
    (tmp_path / "mlflow.sqlite").touch()
    told = tiertune("ui", "--results", tmp_path, "--mlflow", "--host", "::1", "--json")
    assert json.loads(told.stdout)["url"] == "http://[::1]:5000"
