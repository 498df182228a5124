"""`schema`, and graphs that are refused before anything is recorded for them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.small import tiertune
from tests.configs.corpus import KINDS, ROOT
from tiertune.tuner.schemas import schema_for

GOOD = ROOT / "tests/configs/good/workload"


@pytest.mark.parametrize("kind", KINDS)
def test_schema_is_json_schema_of_the_file(kind: str) -> None:
    printed = json.loads(tiertune("schema", kind).stdout)
    assert printed.pop("$schema") == "https://json-schema.org/draft/2020-12/schema"
    assert printed == schema_for(kind)


def test_schema_of_an_unknown_kind() -> None:
    said = tiertune("schema", "workloads")
    assert said.exit_code == 2
    assert said.stderr == ("tiertune: there is no kind of file 'workloads'; did you mean 'workload'?\n")


def test_a_graph_that_does_not_fit_is_refused_before_it_is_recorded(tmp_path: Path) -> None:
    path = GOOD / "betweenness-of-a-tebibyte.yaml"
    said = tiertune("run", "notier", "-w", path, "-m", "skx-numa", "--results", tmp_path)
    assert said.exit_code == 2
    assert "is more than all tiers of skx-numa hold" in said.stderr
    assert list(tmp_path.iterdir()) == []


def test_threads_that_a_kernel_cannot_run_on_are_refused(tmp_path: Path) -> None:
    path = GOOD / "gups-with-a-tiny-hot-part.yaml"
    arguments = ("run", "notier", "-w", path, "-m", "skx-numa", "--results", tmp_path)
    said = tiertune(*arguments, "--threads", "12")
    assert said.exit_code == 2
    assert "the nearest is 96" in said.stderr
    assert list(tmp_path.iterdir()) == []


def test_record_tells_how_pages_of_the_wanted_size_were_carried(tmp_path: Path) -> None:
    arguments = ("record", GOOD / "full-pagerank.yaml", "-m", "skx-numa", "--results", tmp_path)
    large, small = (tiertune(*arguments, "--page-size", size).stdout for size in ("2MiB", "4KiB"))
    assert large == tiertune(*arguments).stdout
    assert "pages of 4 KiB; single" in " ".join(small.split())
    assert small != large
    (stored,) = (tmp_path / "profiles").iterdir()
    assert stored.suffix == ".parquet"
    odd = tiertune(*arguments, "--page-size", "3KiB")
    assert odd.exit_code == 2
    assert odd.stderr == (
        "tiertune: --page-size: no system manages pages of 3KiB; the nearest size is 4KiB\n"
    )
