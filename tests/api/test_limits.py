"""Arguments from Python that are no numbers of their kind, or name nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import tiertune
from tests.cli.small import write_small
from tiertune.files import InputError


def refused(call: Callable[[], object]) -> str:
    with pytest.raises((InputError, tiertune.EngineError)) as error:
        call()
    return str(error.value)


@pytest.mark.parametrize("threads", [0, -1, 2.5, "4", True])
def test_threads_are_a_number_of_them(tmp_path: Path, threads: object) -> None:
    for call in (
        lambda: tiertune.run("notier", "gups@ci", "skx-numa", threads=threads, results=tmp_path),  # type: ignore[arg-type]
        lambda: tiertune.record("gups@ci", "skx-numa", threads=threads, results=tmp_path),  # type: ignore[arg-type]
    ):
        assert refused(call).startswith(f"threads: {threads!r} is n")
    assert not list(tmp_path.iterdir())


def test_points_jobs_and_seeds_are_whole(tmp_path: Path) -> None:
    small = str(write_small(tmp_path).with_name("small-workload.yaml"))
    said = refused(lambda: tiertune.run("notier", small, "skx-numa", timeline_points=1.5))  # type: ignore[arg-type]
    assert said == "timeline_points: 1.5 is no whole number; valid are 0 to 1000000000"
    said = refused(lambda: tiertune.sweep("ratios", jobs="2", results=tmp_path))  # type: ignore[arg-type]
    assert said == "jobs: '2' is no whole number; valid are 1 to 256"
    said = refused(lambda: tiertune.explain("demo", seeds=7.5, results=tmp_path))  # type: ignore[arg-type]
    assert said == "seeds: 7.5 is no whole number; valid are 5 to 1000"


def test_a_value_of_a_knob_is_finite(tmp_path: Path) -> None:
    config = {"sampling_period": float("nan")}
    said = refused(lambda: tiertune.run("hemem", "gups", "skx-numa", config=config, results=tmp_path))
    assert said == "hemem knob 'sampling_period': nan is not a finite number"


def test_no_systems_are_not_the_usual_one(tmp_path: Path) -> None:
    small = write_small(tmp_path).with_name("small-workload.yaml")
    said = refused(lambda: tiertune.tune(workload=small, systems=[], trials=1, results=tmp_path / "results"))
    assert said == "systems: an empty list names nothing to tune; leave it out for hemem"
    assert not (tmp_path / "results").exists()
