"""One playbook on some hosts, watched event by event, that can be ended from another thread."""

from __future__ import annotations

import math
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tiertune.tuner.fleet.lease import Lease
from tiertune.tuner.fleet.program import PLAYBOOKS, ansible_environment, playbook, program

Result = dict[str, Any]


@dataclass
class Played:
    """What came of a play: by host the last result of `action` and, of a loop, that of every item; why hosts
    failed or could not be reached."""

    results: dict[str, Result] = field(default_factory=dict)
    items: dict[str, list[Result]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    unreachable: dict[str, str] = field(default_factory=dict)
    cancelled: bool = False
    ended: bool = True
    """Whether the play came to its end; otherwise Ansible itself said in `message` why not."""
    message: str = ""


class Play:
    """A play that is about to run. `task` is told each task that begins, with its host. After `within_s` it
    is ended: a host whose disk has died answers for ever that it is there.

    Everything that Ansible writes on this machine goes to a folder that is gone afterwards: inventories and
    results of tasks may hold what nobody should keep.
    """

    def __init__(
        self,
        name: str,
        inventory: Path,
        action: str,
        limit: str = "",
        variables: Mapping[str, Any] | None = None,
        task: Callable[[str, str], None] = lambda host, task: None,
        *,
        within_s: float = math.inf,
    ) -> None:
        self._playbook, self._inventory, self._action = playbook(name), inventory, action
        self._limit, self._variables, self._task = limit, dict(variables or {}), task
        self._within_s, self._until = within_s, math.inf
        self._stop = threading.Event()
        self._played = Played()
        self._items_failed: dict[str, str] = {}

    def cancel(self) -> None:
        """Ends the play and every connection that it has; returns at once."""
        self._stop.set()

    def run(self) -> Played:
        """Plays to the end. Raises nothing for what goes wrong on hosts."""
        import ansible_runner

        program("ansible-playbook")
        self._until = time.monotonic() + self._within_s
        with tempfile.TemporaryDirectory(prefix="tiertune-play-") as folder:
            lease = Lease(Path(folder, "lease"))
            private = Path(folder, "runner")
            private.mkdir()
            bound = {
                "TIERTUNE_LEASE": str(lease.path),
                "ANSIBLE_SSH_EXECUTABLE": str(PLAYBOOKS / "bin" / "ssh-bound"),
            }
            try:
                ran = ansible_runner.run(
                    private_data_dir=str(private),
                    playbook=str(self._playbook),
                    inventory=str(self._inventory.resolve()),
                    limit=self._limit or None,
                    extravars=self._variables,
                    envvars={**ansible_environment(), **bound},
                    settings={"suppress_ansible_output": True, "pexpect_use_poll": True},
                    event_handler=self._event,
                    cancel_callback=self._is_over,
                    quiet=True,
                )
            finally:
                lease.release()
        played = self._played
        played.cancelled = self._stop.is_set() and ran.status == "canceled"
        if ran.status == "canceled" and not played.cancelled:
            played.message = f"it did not end within {self._within_s:g} s"
        # 2: a host failed, 4: one was unreachable; both are told by host.
        played.ended = ran.rc in (0, 2, 4) or bool(played.failed or played.unreachable)
        return played

    def _is_over(self) -> bool:
        return self._stop.is_set() or time.monotonic() > self._until

    def _event(self, event: Mapping[str, Any]) -> bool:
        kind, data = event.get("event", ""), event.get("event_data", {})
        host, result = str(data.get("host", "")), data.get("res") or {}
        if kind == "runner_on_start":
            self._task(host, str(data.get("task", "")))
        elif kind == "runner_on_ok" and data.get("task_action") == self._action:
            self._played.results[host] = result
        elif kind == "runner_item_on_ok" and data.get("task_action") == self._action:
            self._played.items.setdefault(host, []).append(result)
        elif kind == "runner_item_on_failed":
            self._items_failed.setdefault(host, _said(result))
        elif kind == "runner_on_failed" and not data.get("ignore_errors"):
            why = self._items_failed.get(host) or _said(result)
            self._played.failed[host] = f"{data.get('task')}: {why}"
        elif kind == "runner_on_unreachable":
            self._played.unreachable[host] = _said(result)
        elif kind in ("error", "verbose", "warning") and event.get("stdout"):
            self._played.message = " ".join(str(event["stdout"]).split())[-500:]
        return False  # nothing is kept on disk


def _said(result: Mapping[str, Any]) -> str:
    said = result.get("errors") or result.get("msg") or result.get("stderr") or "no reason was given"
    text = " ".join(str(said).split())
    return text[-500:]
