"""restore.yml puts back all that something of ours writes down, before that goes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.source_tree import ROOT

PLAYBOOKS = ROOT / "playbooks"
SETS = "tiering_settings"


def tasks_of(path: Path) -> list[dict[str, Any]]:
    """All tasks of a playbook or of a file of tasks in their order, those of roles in their places."""
    found: list[dict[str, Any]] = []
    for entry in yaml.safe_load(path.read_text()):
        found += [one for part in ("block", "always", "tasks") for one in entry.get(part, ())] or [entry]
    return [one for task in found for one in _in_place(task)]


def _in_place(task: dict[str, Any]) -> Iterator[dict[str, Any]]:
    role = task.get("ansible.builtin.import_role")
    if role is None:
        yield task
    else:
        yield from tasks_of(PLAYBOOKS / f"roles/{role['name']}/tasks/{role.get('tasks_from', 'main')}.yml")


def test_what_a_daemon_had_changed_is_put_back_before_its_journal_is_removed() -> None:
    source = (ROOT / "engine/crates/tierd/src/command.rs").read_text()
    folder = re.findall(r'STATE_FOLDER: &str = "(.*)"', source)[0]
    tasks = tasks_of(PLAYBOOKS / "restore.yml")
    removing = [n for n, task in enumerate(tasks) if folder in task.get("loop", ())]
    restoring = [
        n
        for n, task in enumerate(tasks)
        if task.get("ansible.builtin.command", {}).get("argv", ["", ""])[1:] == ["restore"]
        and task["ansible.builtin.command"]["removes"] == f"{folder}/settings.journal"
        and not task.get("ignore_errors")
    ]
    assert len(removing) == 1
    assert len(restoring) == 1
    assert restoring[0] < removing[0]


def test_each_record_of_settings_is_given_back_the_last_one_first() -> None:
    set_by = {
        name: next(task[SETS]["record"] for task in tasks_of(path) if "settings" in task.get(SETS, ()))
        for name in ("trial", "tiering_host")
        for path in [PLAYBOOKS / f"roles/{name}/tasks/main.yml"]
    }
    given_back = [
        task[SETS]["record"]
        for task in tasks_of(PLAYBOOKS / "restore.yml")
        if task.get(SETS, {}).get("state") == "restored"
    ]
    assert given_back == [set_by["trial"], set_by["tiering_host"]]


def test_a_trial_with_settings_does_not_keep_those_of_one_that_was_cut_off() -> None:
    """Ctrl-C ends a play where it is; the next trial may ask for fewer."""
    tasks = tasks_of(PLAYBOOKS / "roles/trial/tasks/main.yml")
    states = [task[SETS].get("state", "applied") for task in tasks if SETS in task]
    assert states == ["restored", "applied", "restored"]
    (run,) = yaml.safe_load((PLAYBOOKS / "roles/trial/tasks/run.yml").read_text())
    assert run["tiertune_trial"]["settings"] == "{{ trial_settings | length > 0 }}"
