"""What fuzzing kept, and what it begins with, comes through; and a finding would be noticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz import targets


@pytest.mark.parametrize("target", targets.TARGETS)
def test_nothing_is_found_in_what_was_kept(target: str, tmp_path: Path) -> None:
    kept = sorted((targets.KEPT / target).iterdir())
    assert kept, "a run of `make fuzz` leaves its inputs here"
    scratch = tmp_path / "input"
    for data in [*targets.seeds(target, scratch), *(path.read_bytes() for path in kept)]:
        targets.run(target, data, scratch)


@pytest.mark.parametrize("target", targets.TARGETS)
def test_seeds_reach_the_end(target: str, tmp_path: Path) -> None:
    """Some seed is taken, so that a run does not only see how files are turned down."""
    taken = 0
    for data in targets.seeds(target, tmp_path / "input"):
        with targets.small_memory():
            try:
                targets.TARGETS[target](data, tmp_path / "input")
                taken += 1
            except targets.REFUSED:
                continue
    assert taken > 0


def test_a_finding_is_not_swallowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(data: bytes, scratch: Path) -> None:
        raise IndexError(f"{len(data)} bytes")

    monkeypatch.setitem(targets.TARGETS, "damon", broken)
    with pytest.raises(IndexError):
        targets.run("damon", b"anything", tmp_path / "input")
