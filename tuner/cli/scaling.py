"""The simulator, telling the journal what it scaled, so that a report needs nothing but the journal."""

from __future__ import annotations

from tiertune.tuner.backend import Notify
from tiertune.tuner.report.data import NOTES
from tiertune.tuner.simulation import SimBackend
from tiertune.tuner.trial import Scenario


class NotingBackend(SimBackend):
    """A `SimBackend` whose facts include the notes of every prepared scenario."""

    _noted: dict[str, str]

    def prepare(self, scenario: Scenario, notify: Notify) -> None:
        """As SimBackend; keeps the notes."""
        super().prepare(scenario, notify)
        self._noted = {**getattr(self, "_noted", {}), NOTES + scenario.key: "\n".join(self.notes(scenario))}

    def facts(self) -> dict[str, str]:
        """As SimBackend, and what was scaled."""
        return {**super().facts(), **getattr(self, "_noted", {})}
