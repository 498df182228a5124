"""The gallery that comes with tiertune: whole, and what the campaigns that it names found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiertune.tuner.campaign import load_campaign
from tiertune.tuner.gallery.definition import load_gallery

FOLDER = Path(__file__).parents[2] / "gallery"
CAMPAIGNS = ("compare", "compare-more")


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_every_cell_of_its_campaigns_is_in_it(name: str) -> None:
    campaign = load_campaign(name)
    for part in campaign.systems:
        gallery = load_gallery(str(FOLDER / f"{part.system}.yaml"))
        entries = [entry for entry in gallery.entries if entry.campaign == name]
        found = {(entry.workload, entry.machine, entry.ratio) for entry in entries}
        assert found == {(one.workload, one.machine, one.ratio) for one in campaign.scenarios}
        assert all(entry.trials == campaign.budget.trials for entry in entries)
        # Without these runs `gallery --renew` could not hold another build against them.
        assert all(entry.validation is not None for entry in entries)
