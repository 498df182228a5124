"""A results folder by formula: a finished campaign, and what other commands would have left beside it."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.report import journal_example
from tiertune.tuner.explorer.folder import Results
from tiertune.tuner.explorer.view import View
from tiertune.tuner.trial import Purpose

NAME = "made-up"


def made(folder: Path) -> View:
    """The campaign of tests/report, a comparison and a transfer test."""
    campaign(folder / NAME)
    _write(folder / NAME / "comparison.json", comparison())
    _write(folder / NAME / "transfer" / "transfer.json", transfer())
    _write(folder / NAME / "transfer" / "along-ratio" / "transfer.json", {**transfer(), "studies": []})
    return View(Results(folder))


def campaign(folder: Path, until: Purpose = "validation") -> Path:
    """The journal of tests/report in `folder`, whole or stopped after `until`; made once."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "journal.sqlite"
    path.write_bytes(_journal(until))
    path.with_name("journal.sqlite.lock").write_text("process 1\n")
    return path


@cache
def _journal(until: Purpose) -> bytes:
    with TemporaryDirectory() as folder:
        return journal_example.write_journal(Path(folder), until=until).read_bytes()


def comparison() -> dict[str, Any]:
    """Two systems in two scenarios; the second system failed in the second one."""

    def span(value: float) -> dict[str, float]:
        return {"value": value, "low": value * 0.99, "high": value * 1.01}

    scenarios, systems = ["first, m, 1:4", "second, m, 1:4"], ["hemem", "tpp"]
    values = {"slowdown_default": 1.5, "slowdown_tuned": 1.2, "gain": 1.25}
    entries: list[dict[str, Any]] = [
        {
            "scenario": scene,
            "system": system,
            **{name: span(value + 0.1 * row) for name, value in values.items()},
        }
        for row, scene in enumerate(scenarios)
        for system in systems
    ]
    entries[-1].update(dict.fromkeys(values))
    return {
        "verdict": "hemem ranks first",
        "void": [],
        "setting": {"scenarios": scenarios},
        "contenders": [
            {
                "name": name,
                **{key: span(value) for key, value in values.items()},
                "rank_default": 1.0,
                "rank_tuned": 1.5,
                "improved": 1,
            }
            for name in systems
        ],
        "entries": entries,
    }


def transfer() -> dict[str, Any]:
    """Two contexts; nothing was found in the first that could be carried."""
    nothing: dict[str, Any] = {
        "status": "nothing to carry",
        "ratio": None,
        "low": None,
        "high": None,
        "share": None,
        "share_low": None,
        "share_high": None,
        "reason": "nothing better was found",
    }
    measured: dict[str, Any] = {
        "status": "measured",
        "ratio": 1.3,
        "low": 1.2,
        "high": 1.4,
        "share": 0.9,
        "share_low": 0.8,
        "share_high": 1.0,
    }
    matrix = [{"from": 1, "to": to, **nothing} for to in (1, 2)]
    matrix += [{"from": 2, "to": to, **measured} for to in (1, 2)]
    contexts = [{"number": number, "label": f"1:{number}"} for number in (1, 2)]
    study = {"name": "hemem", "verdict": "it carries", "advice": "", "contexts": contexts, "matrix": matrix}
    along = {
        "axis": "ratio",
        "verdict": "good from 1:2",
        "least_pct": 1.0,
        "lines": [{"label": "1 m 1:4", "told": "1:2 to 1:16"}],
    }
    return {"verdict": "half of it carries", "studies": [study], "along": [along]}


def _write(path: Path, document: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))
