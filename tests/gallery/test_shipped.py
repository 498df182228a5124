"""The gallery that comes with tiertune: whole, and what the campaigns that it names found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiertune.adapters.registry import adapter_for
from tiertune.tuner.campaign import load_campaign
from tiertune.tuner.gallery.definition import load_gallery

FOLDER = Path(__file__).parents[2] / "gallery"
CAMPAIGNS = ("compare", "compare-more", "compare-4kib")


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


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.yaml")), ids=lambda path: path.stem)
def test_what_is_to_be_pasted_is_as_the_adapter_writes_it_today(path: Path) -> None:
    """Lines that set something; remarks are of what the build of then had beside them."""
    gallery = load_gallery(str(path))
    adapter = adapter_for(gallery.name)
    for entry in gallery.entries:
        lines = set(adapter.native_block(entry.knobs).splitlines())
        pasted = [
            line for line in entry.native.splitlines() if line.startswith(("echo ", "sysctl ", "#define "))
        ]
        assert [line for line in pasted if line not in lines] == []
