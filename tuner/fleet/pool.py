"""Which host runs what: one trial a host at a time, a block of trials on one host, lost hosts set aside."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from tiertune.tuner.backend import BackendLost
from tiertune.tuner.fleet.inventory import Host
from tiertune.tuner.journal import Row
from tiertune.tuner.trial import Trial

Block = tuple[str, str, int]


class Pool:
    """The hosts of a campaign. Safe to use from several threads.

    Whoever waits for a host that is set aside meanwhile gets another one; where none is left, BackendLost is
    raised. `begun` has the hosts of blocks that an earlier run of the campaign began.
    """

    def __init__(self, hosts: Sequence[Host], begun: Mapping[Block, str] | None = None) -> None:
        self._hosts = {host.name: host for host in hosts}
        self._aside: dict[str, str] = {}
        self._busy: set[str] = set()
        self._blocks = {block: name for block, name in (begun or {}).items() if name in self._hosts}
        self._changed = threading.Condition()
        self._closed: str | None = None

    @property
    def aside(self) -> dict[str, str]:
        """Why which host was set aside."""
        with self._changed:
            return dict(self._aside)

    def in_use(self) -> list[Host]:
        """The hosts that are not set aside, by name."""
        with self._changed:
            return [host for name, host in sorted(self._hosts.items()) if name not in self._aside]

    def set_aside(self, host: Host, why: str) -> bool:
        """Gives a host no further trial. False where it was aside already."""
        with self._changed:
            new = host.name not in self._aside
            self._aside.setdefault(host.name, why)
            self._blocks = {block: name for block, name in self._blocks.items() if name != host.name}
            self._changed.notify_all()
            return new

    def close(self, why: str) -> None:
        """Gives nobody a host any more; whoever waits gets BackendLost with this sentence."""
        with self._changed:
            self._closed = self._closed or why
            self._changed.notify_all()

    @contextmanager
    def lent(self, trial: Trial) -> Iterator[Host]:
        """A host for this trial alone, as soon as one is free; trials of one block get the same one."""
        host = self._take(trial)
        try:
            yield host
        finally:
            with self._changed:
                self._busy.discard(host.name)
                self._changed.notify_all()

    def _take(self, trial: Trial) -> Host:
        with self._changed:
            while True:
                host = self._free(trial)
                if host is not None:
                    self._busy.add(host.name)
                    return host
                self._changed.wait()

    def _free(self, trial: Trial) -> Host | None:
        """A host that may run the trial now; None while it has to wait."""
        if self._closed is not None:
            raise BackendLost(self._closed)
        left = [name for name in sorted(self._hosts) if name not in self._aside]
        if not left:
            reasons = "; ".join(f"{name}: {why}" for name, why in sorted(self._aside.items()))
            raise BackendLost(
                f"every host was set aside ({reasons}); once they are back, `tiertune resume` goes on"
            )
        if trial.purpose == "search":
            free = [name for name in left if name not in self._busy]
            return self._hosts[free[0]] if free else None
        name = self._block_host(trial, left)
        return None if name in self._busy else self._hosts[name]

    def _block_host(self, trial: Trial, left: Sequence[str]) -> str:
        """Runs of one block are compared with one another, so one host has them all; blocks take turns."""
        block = (trial.cell, trial.purpose, trial.seed)
        if block not in self._blocks:
            of_stage = [
                name for (cell, purpose, _), name in self._blocks.items() if (cell, purpose) == block[:2]
            ]
            self._blocks[block] = min(left, key=lambda name: (of_stage.count(name), name))
        return self._blocks[block]


def begun_blocks(rows: Iterable[Row]) -> dict[Block, str]:
    """The host of each block of which a journal's `rows` have a run; of one that moved, the last."""
    ran = [row for row in rows if row.trial.purpose != "search" and row.worker is not None]
    return {
        (row.trial.cell, row.trial.purpose, row.trial.seed): row.worker
        for row in sorted(ran, key=lambda row: row.finished_at or "")
        if row.worker is not None
    }
