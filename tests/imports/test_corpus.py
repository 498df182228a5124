"""Every importer takes what its tool writes, and refuses anything else with the line and exit code 2."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.imports.corpus import READERS, files
from tiertune.files import InputError
from tiertune.workloads.measured import NothingSeen, Sightings, profile_of
from tiertune.workloads.profile_file import write_profile

UPDATE = os.environ.get("UPDATE_GOLDEN") == "1"


@pytest.mark.parametrize(("kind", "path"), files("good"), ids=lambda part: getattr(part, "stem", part))
def test_good_files_become_workloads(kind: str, path: Path, tmp_path: Path) -> None:
    from tiertune.machines.definition import load_machine
    from tiertune.workloads.definition import load_workload
    from tiertune.workloads.profile import profile_for

    read = READERS[kind](path)
    if isinstance(read, Sightings):
        file = tmp_path / "imported.parquet"
        write_profile(file, *profile_of(read))
    else:
        import yaml

        file = tmp_path / "imported.yaml"
        file.write_text(yaml.safe_dump(read, sort_keys=False), encoding="utf-8")
    workload = load_workload(str(file))
    loaded = profile_for(workload, load_machine("skx-numa"), None, tmp_path, lambda _: None)
    assert loaded.footprint_bytes == workload.footprint_bytes > 0


@pytest.mark.parametrize(("kind", "path"), files("bad"), ids=lambda part: getattr(part, "stem", part))
def test_bad_files_are_refused_with_a_sentence(kind: str, path: Path) -> None:
    def imported() -> None:
        read = READERS[kind](path)
        assert isinstance(read, Sightings)
        profile_of(read)

    with pytest.raises((InputError, NothingSeen)) as caught:
        imported()
    said = str(caught.value).replace(str(path), path.name)
    assert "\n" not in said
    expected = path.with_suffix(".expected")
    if UPDATE:
        expected.write_text(said + "\n", encoding="utf-8")
    assert said + "\n" == expected.read_text(encoding="utf-8")


def test_command_line(tmp_path: Path) -> None:
    """Exit codes and what is left behind, for one good and one bad file."""
    from tests.imports.corpus import ROOT

    def imported(name: str, *more: str) -> subprocess.CompletedProcess[str]:
        code = "from tiertune.tuner.cli import main; main()"
        where = ["--from", "perf-script", str(ROOT / "perf-script" / name), "-o", str(tmp_path / "a.parquet")]
        call = [sys.executable, "-c", code, "profile", "import", *where, *more]
        return subprocess.run(call, capture_output=True, text=True, cwd=tmp_path, timeout=120)

    refused = imported("bad/no-period.txt")
    assert refused.returncode == 2
    assert "no-period.txt:1: the sample has no period" in refused.stderr
    assert list(tmp_path.iterdir()) == []
    taken = imported("bad/no-period.txt", "--period", "1009")
    assert "all samples are of one moment" in taken.stderr
    done = imported("good/loads.txt", "--class", "dependent", "--json")
    assert done.returncode == 0, done.stderr
    assert "dependent" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["a.parquet"]
