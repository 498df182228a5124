"""What a campaign hands over to a study of transfer."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from tests.cli.small import CAMPAIGN, tiertune, write_small
from tiertune.tuner.journal import Journal
from tiertune.tuner.transfer.context import complete, contexts_of
from tiertune.tuner.trial import canonical

BOUND = "\nconstraints: [{{metric: migrated_bytes, at_most: {}}}]\n"


def tuned(folder: Path, text: str) -> tuple[Path, dict[str, float]]:
    """The journal of that campaign, and what each config of its search migrated in its only run."""
    path = write_small(folder)
    path.write_text(text)
    made = tiertune("tune", path, "--results", folder / "results")
    assert made.exit_code == 0, made.output
    (found,) = (folder / "results").glob("*/journal.sqlite")
    with Journal(found, writer=False) as journal:
        rows = [row for row in journal.rows() if row.trial.purpose == "search"]
    return found, {
        canonical(complete("hemem", row.trial.config)): row.metrics["migrated_bytes"] for row in rows
    }


def test_finalists_keep_the_constraints_of_their_campaign(tmp_path: Path) -> None:
    for name in ("free", "held"):
        (tmp_path / name).mkdir()
    _, moved = tuned(tmp_path / "free", CAMPAIGN)
    limit = sorted(moved.values())[len(moved) // 2]
    path, moved = tuned(tmp_path / "held", CAMPAIGN + BOUND.format(limit))
    (context,) = contexts_of([path])
    assert len(moved) == 8
    assert 0 < len(context.finalists) < 5
    assert all(moved[canonical(config)] <= limit for config in context.finalists)
    # Had validation found that the winner moves more than it may, it would be no finalist either.
    with sqlite3.connect(path) as database:
        database.execute(
            "update metric set value = ? where name = 'migrated_bytes' and trial in"
            " (select id from trial where purpose = 'validation' and origin = 'winner')",
            (2.0 * limit + 1.0,),
        )
    (judged,) = contexts_of([path])
    assert not judged.improved
    assert judged.finalists == context.finalists[1:]
