"""Ctrl-C while something is measured: what is kept is not measured again by the command that goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.claims.test_reproduce import CLAIMS
from tests.cli.small import tiertune, write_small
from tests.comparison.test_command import write_comparison
from tests.sweep.small import write_sweep
from tiertune.engine import EngineError
from tiertune.tuner.sweep import measurement

COMMANDS = {
    "explain": ("tiertune.tuner.cli.campaign.tuned_campaign", ["small.yaml"]),
    "transfer": ("tiertune.tuner.cli.campaign.tuned_campaign", ["small.yaml"]),
    "sweep": ("tiertune.tuner.sweep.measurement.measure", ["sweep.yaml"]),
    "sensitivity": (
        "tiertune.tuner.sensitivity.study.run_study",
        ["sweep.yaml", "--claim", "hemem/eager beats notier"],
    ),
    "reproduce": (
        "tiertune.tuner.sweep.measurement.measure",
        ["--claims", "claims.yaml", "--id", "A-1", "--no-campaigns"],
    ),
}


def _interrupted(*_: object, **__: object) -> Any:
    """As native code tells it: an error of its own."""
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        raise EngineError("interrupted") from None


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_sweep(tmp_path).rename(tmp_path / "sweep.yaml")
    write_small(tmp_path)
    (tmp_path / "claims.yaml").write_text(CLAIMS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS)
def test_what_goes_on_does_not_measure_again(
    command: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part, arguments = COMMANDS[command]
    monkeypatch.setattr(part, _interrupted)
    plain, afresh = (tiertune(command, *arguments, *more) for more in ((), ("--fresh",)))
    assert (plain.exit_code, afresh.exit_code) == (130, 130), plain.stderr
    assert "what is measured is kept, the same command goes on" in plain.stderr
    assert "what is measured is kept, the same command without --fresh goes on" in afresh.stderr


def test_claims_that_are_perturbed_are_stopped_as_well(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the claims themselves: of the two calls that measure, the second."""
    measure, calls = measurement.measure, iter(range(9))

    def second(*arguments: Any, **options: Any) -> Any:
        return _interrupted() if next(calls) else measure(*arguments, **options)

    monkeypatch.setattr(measurement, "measure", second)
    stopped = tiertune("reproduce", "--claims", "claims.yaml", "--id", "A-1", "--perturb")
    assert stopped.exit_code == 130, stopped.stderr
    assert "the same command goes on" in stopped.stderr


def test_a_comparison_goes_on_with_the_options_that_it_had(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_comparison(folder).rename(folder / "small.yaml")
    monkeypatch.setattr("tiertune.tuner.cli.compare.run_campaign", _interrupted)
    stopped = tiertune("compare", "small.yaml", "--name", "other", "--scheduler", "local")
    assert stopped.exit_code == 130, stopped.stderr
    assert "`tiertune compare small.yaml --name other --scheduler local` goes on" in stopped.stderr
