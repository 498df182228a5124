"""What is set can be given back, whatever happens in between."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.playbooks.loading import loaded

settings = loaded("library/tiering_settings")


class Host:
    """Some kernel files, and a record beside them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.record = str(folder / "state" / "found.json")
        for name, text in {"thp": "always [madvise] never", "demotion": "false", "paranoid": "2"}.items():
            (folder / name).write_text(text + "\n")
        for cpu in range(3):
            (folder / f"cpu{cpu}").write_text("powersave\n")

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def entry(self, name: str, value: str, **more: Any) -> dict[str, Any]:
        return {"path": self.path(name), "value": value, **more}

    def apply(self, *entries: dict[str, Any], check: bool = False) -> list[tuple[str, str, str]]:
        changes, _ = settings.apply(list(entries), self.record, check)
        return [(Path(target.name).name, before, after) for target, before, after in changes]

    def restore(self, check: bool = False) -> None:
        settings.restore(self.record, check)

    def value(self, name: str) -> str:
        return str(settings.selected((self.folder / name).read_text()))

    def found(self) -> dict[str, str]:
        document = json.loads(Path(self.record).read_text())
        return {Path(entry["path"]).name: entry["value"] for entry in document["found"]}


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_applied_twice_changes_once_and_the_record_stays(host: Host) -> None:
    wanted = [host.entry("thp", "never"), host.entry("demotion", "1"), host.entry("cpu[0-9]*", "performance")]
    assert host.apply(*wanted) == [
        ("thp", "madvise", "never"),
        ("demotion", "false", "1"),
        *((f"cpu{cpu}", "powersave", "performance") for cpu in range(3)),
    ]
    record = Path(host.record).read_bytes()
    assert host.apply(*wanted) == []
    assert Path(host.record).read_bytes() == record


def test_what_was_found_first_is_what_comes_back(host: Host) -> None:
    host.apply(host.entry("paranoid", "0"), host.entry("thp", "never"))
    host.apply(host.entry("paranoid", "-1"), host.entry("cpu1", "performance"))
    assert host.found() == {"paranoid": "2", "thp": "madvise", "cpu1": "powersave"}
    host.restore()
    assert [host.value(name) for name in ("paranoid", "thp", "cpu1")] == ["2", "madvise", "powersave"]
    assert not Path(host.record).parent.exists()
    host.restore()


def test_looking_ahead_changes_nothing(host: Host) -> None:
    assert host.apply(host.entry("thp", "never"), check=True) == [("thp", "madvise", "never")]
    assert host.value("thp") == "madvise"
    assert not Path(host.record).exists()
    host.apply(host.entry("thp", "never"))
    host.restore(check=True)
    assert host.value("thp") == "never"
    assert host.found() == {"thp": "madvise"}


def test_the_record_is_on_disk_before_anything_is_changed(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(target: Any, value: str) -> None:
        assert host.found() == {"thp": "madvise", "paranoid": "2"}
        raise settings.CannotSet("the power went off")

    monkeypatch.setattr(settings, "put", refused)
    with pytest.raises(settings.CannotSet):
        host.apply(host.entry("thp", "never"), host.entry("paranoid", "0"))
    monkeypatch.undo()
    host.restore()
    assert (host.value("thp"), host.value("paranoid")) == ("madvise", "2")


def test_a_kernel_that_keeps_its_value_is_noticed(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings.KernelFile, "write", lambda self, value: None)
    with pytest.raises(settings.CannotSet, match=r"paranoid: is 2 after it was set to 0"):
        host.apply(host.entry("paranoid", "0"))
    assert host.apply(host.entry("paranoid", "0", movable=True)) == []


def test_what_cannot_be_given_back_stays_in_the_record(host: Host) -> None:
    host.apply(host.entry("thp", "never"), host.entry("paranoid", "0"))
    Path(host.path("paranoid")).unlink()
    Path(host.path("paranoid")).mkdir()
    with pytest.raises(settings.CannotSet):
        host.restore()
    assert host.found() == {"paranoid": "2"}
    assert host.value("thp") == "madvise", "the others come back all the same"


def test_some_of_several_are_those_that_the_kernel_lets_go(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = {"paths": [host.path(f"cpu{cpu}") for cpu in (2, 1, 0)], "count": 2, "value": "performance"}
    write = settings.KernelFile.write

    def stubborn(target: Any, value: str) -> None:
        if target.path.endswith("cpu1"):
            raise OSError(22, "Invalid argument")
        write(target, value)

    monkeypatch.setattr(settings.KernelFile, "write", stubborn)
    assert [name for name, _, _ in host.apply(group, check=True)] == ["cpu2", "cpu1"]
    assert [name for name, _, _ in host.apply(group)] == ["cpu2", "cpu0"]
    assert host.apply(group) == []
    with pytest.raises(settings.CannotSet, match=r"only 0 of 1 could be .*cpu1: cannot be set"):
        host.apply({**group, "count": 3})
    host.restore()
    assert [host.value(f"cpu{cpu}") for cpu in range(3)] == ["powersave"] * 3
    with pytest.raises(settings.CannotSet, match="4 files are to be performance, and there are 3"):
        host.apply({**group, "count": 4})


def test_absent_settings(host: Host) -> None:
    with pytest.raises(settings.CannotSet, match="nothing: this host has no such setting"):
        host.apply(host.entry("nothing", "1"))
    assert host.apply(host.entry("nothing", "1", optional=True)) == []


@pytest.mark.parametrize("entry", [{"value": "1"}, {"path": "/x"}, {"path": "/x", "value": True}])
def test_mistakes_are_sentences(host: Host, entry: dict[str, Any]) -> None:
    with pytest.raises(settings.CannotSet, match=r"needs|has no|quote it"):
        host.apply(entry)


@pytest.mark.parametrize(
    ("wanted", "found", "alike"),
    [
        ("1", "true", True),
        ("0", "false", True),
        ("1", "Y", True),
        ("0x10", "16", True),
        ("1", "2", False),
        ("on", "1", False),
        ("performance", "powersave", False),
    ],
)
def test_kernels_answer_in_their_own_words(wanted: str, found: str, alike: bool) -> None:
    assert settings.same(wanted, found) is alike


def test_nothing_is_set_or_given_back_while_a_trial_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who came second was refused its trial, after it had set what it wanted under that of somebody else."""
    trial = loaded("library/tiertune_trial")
    lock = str(tmp_path / "run/trial.lock")
    monkeypatch.setattr(trial, "LOCK", lock)
    monkeypatch.setattr(settings, "TRIAL_LOCK", lock)
    settings.refuse_during_trial()
    held = trial.held_lock("validation-3")
    with pytest.raises(settings.CannotSet, match="trial validation-3 runs here"):
        settings.refuse_during_trial()
    os.close(held)
    settings.refuse_during_trial()


@pytest.mark.parametrize("state", ["applied", "restored"])
def test_the_module_asks_whether_a_trial_runs_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    host = Host(tmp_path)
    host.apply(host.entry("thp", "always"))
    trial = loaded("library/tiertune_trial")
    lock = str(tmp_path / "run/trial.lock")
    monkeypatch.setattr(trial, "LOCK", lock)
    held = trial.held_lock("search-1")
    given = {"state": state, "record": host.record, "settings": [host.entry("thp", "never")]}
    run = (
        "import importlib.util, sys; from ansible.module_utils.testing import patch_module_args;"
        f" spec = importlib.util.spec_from_file_location('settings', {str(settings.__file__)!r});"
        " settings = importlib.util.module_from_spec(spec); spec.loader.exec_module(settings);"
        f" settings.TRIAL_LOCK = {lock!r}\n"
        f"with patch_module_args({given!r}): settings.main()"
    )
    said = subprocess.run([sys.executable, "-c", run], capture_output=True, text=True, timeout=60)
    assert "trial search-1 runs here" in json.loads(said.stdout)["msg"], said
    assert host.value("thp") == "always"
    os.close(held)
    assert subprocess.run([sys.executable, "-c", run], capture_output=True, timeout=60).returncode == 0
