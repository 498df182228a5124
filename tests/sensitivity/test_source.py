"""What a campaign's conclusion is read off."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.cli.small import write_small
from tiertune.tuner.campaign import load_campaign
from tiertune.tuner.plan import plan_of
from tiertune.tuner.sensitivity import source


def test_of_several_searches_of_a_cell_the_first_is_the_scenario(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_small(tmp_path)
    path.write_text(path.read_text() + "\nsearches: 3\n")
    plan = plan_of(load_campaign(str(path)))
    cells = {cell.key: cell for cell in plan.cells}
    assert len(cells) == 3

    class Searched:
        """A journal in which every search has a trial."""

        def __init__(self, *_: Any, **__: Any) -> None: ...

        def __enter__(self) -> Searched:
            return self

        def __exit__(self, *_: object) -> None: ...

        def claimed(self) -> Any:
            return SimpleNamespace(document=plan.document, generation=0)

        def rows(self, key: str, _: str) -> list[Any]:
            cell = cells[key]
            return [SimpleNamespace(trial=SimpleNamespace(scenario=cell.scenario, system=cell.system))]

    (tmp_path / "small").mkdir()
    (tmp_path / "small/journal.sqlite").touch()
    monkeypatch.setattr(source, "Journal", Searched)
    monkeypatch.setattr(source, "beats_default", lambda *_: None)  # nothing is selected yet
    sweep, claim = source.sweep_of("small", tmp_path)
    assert sweep.parts is not None
    assert [part.configs[-1].cell for part in sweep.parts if part.configs] == [plan.cells[0].key]
    assert claim == "hemem/tuned beats hemem/default"
