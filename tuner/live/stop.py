"""The end of live trials before their time: what runs is ended, and what waits does not begin."""

from __future__ import annotations

import threading

from tiertune.tuner.backend import STOPPED, BackendLost

SETTLE_S = 5.0
"""Wait before a trial is run again whose host was not in order."""


class Stop(threading.Event):
    """Set, from any thread, when the trials of a backend are to end."""

    def keep_going(self) -> None:
        """Raises BackendLost once it is set."""
        if self.is_set():
            raise BackendLost(STOPPED)

    def settle(self) -> None:
        """Gives load and heat of a host a moment to go; a stop ends the wait."""
        self.wait(SETTLE_S)
