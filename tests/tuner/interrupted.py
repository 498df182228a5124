"""A campaign on the simulator that is broken off and taken up again, held against one that is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.tuner.toy import table
from tiertune.tuner.campaign import Campaign
from tiertune.tuner.events import Event, Started
from tiertune.tuner.loop import journal_path, tune
from tiertune.tuner.plan import plan_of
from tiertune.tuner.simulation import SimBackend


def check_resumed(campaign: Campaign, folder: Path, *stops: int) -> list[dict[str, Any]]:
    """Broken off as each of the trials `stops` starts, it ends with the table of a whole run, which is
    returned; its journal is in `folder`/whole."""

    def run(name: str, stop_at: int | None = None) -> list[dict[str, Any]]:
        def listen(event: Event) -> None:
            if isinstance(event, Started) and event.trial.number == stop_at:
                raise KeyboardInterrupt

        backend = SimBackend(folder / "profiles", campaign.workload, campaign.machine)
        tune(plan_of(campaign), folder / name, backend, listen)
        return table(journal_path(folder / name, campaign.name))

    whole = run("whole")
    for stop_at in stops:
        with pytest.raises(KeyboardInterrupt):
            run(f"broken-{stop_at}", stop_at)
        assert run(f"broken-{stop_at}") == whole
    return whole
