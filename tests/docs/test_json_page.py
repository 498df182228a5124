"""docs/json.md has the keys of every command that it names, no more and no fewer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.claims.test_reproduce import CLAIMS
from tests.cli.small import tiertune
from tests.comparison.test_command import write_comparison
from tests.configs.corpus import ROOT
from tests.explanation.one_cell import QUICK, write_one
from tests.nightly.two import write_two
from tests.sweep.small import SWEEP, write_sweep
from tests.transfer.few import write_few

pytestmark = pytest.mark.long

ROW = re.compile(r"^\| `([a-z -]+)` \| (.*?) \|", re.MULTILINE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """With a file for each command that takes one."""
    made = tmp_path_factory.mktemp("json")
    write_one(made)
    (made / "claims.yaml").write_text(CLAIMS)
    for name, write in (("few", write_few), ("cmp", write_comparison), ("two", write_two)):
        (made / name).mkdir()
        write(made / name)
    suite = yaml.safe_load((made / "two/two.yaml").read_text())
    (made / "two/two.yaml").write_text(yaml.safe_dump({**suite, "search": False}))
    (made / "sweeps").mkdir()
    write_sweep(made / "sweeps", SWEEP.replace('ratios: ["1:4"]', 'ratios: ["1:4", "1:8"]'))
    with chdir(made / "two"):  # workloads of a suite are found from there
        yield made


def commands(folder: Path) -> dict[str, tuple[str | Path, ...]]:
    """In an order in which each finds what it builds on."""
    where = ("-w", folder / "small-workload.yaml", "-m", "skx-numa", "--ratio", "1:12")
    sweep = folder / "sweeps/small.yaml"
    few = ("--parameters", "migration_cost", "--together", "4")
    return {
        "run": ("run", "hemem", *where),
        "tune --dry-run": ("tune", folder / "mine.yaml", "--dry-run"),
        "tune": ("tune", folder / "mine.yaml"),
        "resume": ("resume", "mine"),
        "report": ("report", "mine"),
        "explain": ("explain", "mine", *QUICK),
        "transfer": ("transfer", folder / "few/few.yaml", "--seeds", "5", "--candidates", "1"),
        "gallery": ("gallery", "few"),
        "gallery --check": ("gallery", "--check"),
        "gallery --renew": ("gallery", "--renew"),
        "compare": ("compare", folder / "cmp/small.yaml"),
        "sweep": ("sweep", sweep),
        "sensitivity": ("sensitivity", sweep, "--claim", "hemem/eager beats notier", *few),
        "reproduce": ("reproduce", "--claims", folder / "claims.yaml"),
        "nightly": ("nightly", folder / "two/two.yaml", "--date", "2026-11-01", "--any-time"),
        "list": ("list", "workloads"),
        "show": ("show", "hemem"),
        "doctor": ("doctor",),
        "host show": ("host", "show"),
    }


WITHOUT_RESULTS = {"list", "show", "doctor", "host show"}


def printed(name: str, command: tuple[str | Path, ...], folder: Path) -> Any:
    results = () if name in WITHOUT_RESULTS else ("--results", folder / "results")
    done = tiertune(*command, *results, "--json")
    # A host may be unfit, which is said in the document as well.
    assert done.exit_code == 0 or name == "doctor", done.stderr
    found = json.loads(done.stdout)
    return found[0] if isinstance(found, list) else found


def test_each_command_prints_the_keys_of_its_line(folder: Path) -> None:
    page = (ROOT / "docs/json.md").read_text()
    told = {name: re.findall(r"`([a-z_]+)`", keys) for name, keys in ROW.findall(page)}
    asked = commands(folder)
    assert set(told) == set(asked)
    for name, command in asked.items():
        assert list(printed(name, command, folder)) == told[name], name
