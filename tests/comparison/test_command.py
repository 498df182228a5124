"""`tiertune compare` from campaign to page, killed in the middle, and with tampered journals."""

from __future__ import annotations

import csv
import json
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.figures import check_figures
from tests.cli.small import CAMPAIGN, WORKLOAD, tiertune
from tiertune.tuner.campaign import load_campaign
from tiertune.tuner.comparison.fairness import checks
from tiertune.tuner.comparison.measured import read_journals
from tiertune.tuner.comparison.references import FILE
from tiertune.tuner.gallery.definition import load_gallery
from tiertune.tuner.journal import Journal
from tiertune.tuner.plan import plan_of
from tiertune.tuner.report.html import search_words
from tiertune.tuner.sweep.axes import ConfigEntry
from tiertune.tuner.sweep.row import Coordinates
from tiertune.tuner.sweep.tuned import Configs

SYSTEMS = ("hmsdk", "tpp", "autonuma")
SEARCHES, TRIALS = 3, 3


def write_comparison(folder: Path) -> Path:
    """A campaign that compares three systems of the kernel in two scenarios, in seconds."""
    (folder / "small-workload.yaml").write_text(WORKLOAD.replace("ops: 1e9", "ops: 1e8"))
    systems = "".join(f"  - {{system: {name}, space: {name}}}\n" for name in SYSTEMS)
    text = CAMPAIGN.replace("  - {system: hemem, space: hemem}\n", systems)
    text = text.replace(
        "systems:", '  - {workload: ./small-workload.yaml, machine: icx-pmem, ratio: "1:4"}\nsystems:'
    )
    text = text.replace("trials: 8, initial: 4", f"trials: {TRIALS}, initial: 2")
    (folder / "advised.yaml").write_text(
        "name: advised\ndescription: with a prior\nsystem: hemem\n"
        "knobs: {cooling_pages: {prior: {around: 1000, spread: 3}}}\n"
    )
    path = folder / "small.yaml"
    path.write_text(f"{text}searches: {SEARCHES}\n")
    return path


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a campaign and, in `results`, what came of comparing it in one go."""
    folder = tmp_path_factory.mktemp("compared")
    done = tiertune("compare", write_comparison(folder), "--results", folder / "results")
    assert done.exit_code == 0, done.stderr
    assert "Tuned at equal budgets" in done.stdout
    return folder


def document(folder: Path, name: str = "small") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "results" / name / "comparison.json").read_text())
    return found


def timeless(found: dict[str, Any]) -> dict[str, Any]:
    """Without what a clock decides, and without how many times a killed trial was started."""
    times = {"run_wall_s", "ask_cpu_s"}
    return {**found, "setting": {k: v for k, v in found["setting"].items() if k not in times}}


def test_the_page_is_whole_and_needs_no_network(compared: Path) -> None:
    page = (compared / "results/small/comparison.html").read_text()
    assert page.count("<svg") == 5
    assert "http" not in page.replace("http-equiv", "")
    found = document(compared)
    assert found["void"] == []
    assert found["verdict"] in page
    assert [check["name"] for check in found["checks"] if not check["holds"] and not check["remark"]] == []
    assert found["setting"]["search_runs"] == 2 * len(SYSTEMS) * SEARCHES * TRIALS
    assert found["calibration"]["tests"] == 2 * len(SYSTEMS)


def test_the_data_behind_each_figure_lie_beside_it(compared: Path) -> None:
    folder = compared / "results/small"
    page = (folder / "comparison.html").read_text()
    files = sorted(folder.glob("comparison-*.csv"))
    assert len(files) == 11
    for path in files:
        rows = list(csv.reader(path.read_text().splitlines()))
        assert all(len(row) == len(rows[0]) for row in rows), path
    for name in ("systems", "scenarios", "ranks", "pairs", "duels", "anytime-trials", "anytime-time", "runs"):
        assert f"comparison-{name}.csv" in page
        assert (folder / f"comparison-{name}.csv").is_file()


def test_the_page_says_what_the_runs_say(compared: Path) -> None:
    """Slowdowns from nothing but the table of runs."""
    with (compared / "results/small/comparison-runs.csv").open() as file:
        rows = list(csv.DictReader(file))
    entries = document(compared)["entries"]
    entry = next(one for one in entries if (one["system"], one["machine"]) == ("tpp", "icx-pmem"))

    def costs(system: str, stage: str) -> list[float]:
        return [
            float(row["log_cost"])
            for row in rows
            if (row["machine"], row["system"], row["stage"]) == ("icx-pmem", system, stage)
        ]

    for stage in ("default", "tuned"):
        mine, base = costs("tpp", stage), costs("all-fast", "yardstick")
        expected = 2.718281828459045 ** (sum(mine) / len(mine) - sum(base) / len(base))
        assert entry[f"slowdown_{stage}"]["value"] == pytest.approx(expected)


def test_searches_are_independent_and_systems_share_their_seeds(compared: Path) -> None:
    with sqlite3.connect(compared / "results/small/journal.sqlite") as journal:
        query = "select cell, seed from trial where purpose = 'search' order by number"
        rows = journal.execute(query).fetchall()
    seeds: dict[str, tuple[int, ...]] = {}
    for cell, seed in rows:
        seeds[cell] = (*seeds.get(cell, ()), seed)
    assert len(seeds) == 2 * len(SYSTEMS) * SEARCHES
    assert len(set(seeds.values())) == 2 * SEARCHES
    flat = [seed for some in set(seeds.values()) for seed in some]
    assert len(set(flat)) == len(flat)


def test_sweeps_take_the_winner_of_the_first_search(compared: Path) -> None:
    at = Coordinates(
        "", "tpp", "tuned", "small", "none", "icx-pmem", "1:4", 4, "none", 2 * 2**20, 1
    )  # fmt: skip
    entry = ConfigEntry(name="tuned", campaign="small")
    ((_, config),) = Configs(compared / "results").expanded(entry, at)
    with Journal(compared / "results/small/journal.sqlite", writer=False) as journal:
        rows = [row for row in journal.rows(purpose="validation") if row.trial.origin == "winner"]
    first = next(row for row in rows if row.trial.cell.endswith("icx-pmem/1:4/default-threads/2MiB/tpp"))
    assert isinstance(config, dict)
    assert first.trial.config.items() <= config.items()


def test_killed_and_run_again_it_says_the_same(compared: Path) -> None:
    command = [str(Path(sys.executable).with_name("tiertune")), "compare", "small.yaml", "--name", "killed"]
    campaign, journal = compared / "small.yaml", compared / "results/killed/journal.sqlite"
    quiet = subprocess.DEVNULL
    killed = subprocess.Popen([*command, "--results", "results"], cwd=compared, stdout=quiet, stderr=quiet)
    deadline = time.monotonic() + 60
    while _finished(journal) < 50:
        assert killed.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert not (compared / "results/killed/comparison.json").exists()
    again = tiertune("compare", campaign, "--results", compared / "results", "--name", "killed", "--json")
    assert again.exit_code == 0, again.stderr
    printed = json.loads(again.stdout)
    assert printed.pop("files")[0].endswith("killed/comparison.html")
    assert printed == document(compared, "killed")
    unbroken, resumed = (timeless(document(compared, name)) for name in ("small", "killed"))
    for found in (unbroken, resumed):
        del found["campaign"], found["reproduce"]
    assert resumed == unbroken


def _finished(journal: Path) -> int:
    if not journal.is_file():
        return 0
    try:
        with sqlite3.connect(f"file:{journal}?mode=ro", uri=True) as database:
            count: int = database.execute("select count(*) from trial where status = 'ok'").fetchone()[0]
            return count
    except sqlite3.OperationalError:  # the tables are not there yet
        return 0


def _tamper(compared: Path, folder: Path, file: str, *statements: str) -> Path:
    """A copy of the results in which SQL was run in one of the journals."""
    shutil.copytree(compared / "results/small", folder / "small")
    with sqlite3.connect(folder / "small" / file) as database:
        for statement in statements:
            assert database.execute(statement).rowcount > 0, statement
    return folder / "small"


def _failing(compared: Path, folder: Path) -> dict[str, str]:
    """What the checks find fault with, by name of the condition."""
    plan = plan_of(load_campaign(str(compared / "small.yaml")))
    found = checks(plan, read_journals(folder))
    return {check.name: check.found for check in found if not check.holds and not check.remark}


OTHER_ENGINE = """insert into environment (fingerprint, document, recorded_at)
    select 'other', replace(document, '"engine":"', '"engine":"9.'), recorded_at from environment limit 1"""
MOVE = """update trial set environment = (select id from environment where fingerprint = 'other')
    where id = (select max(id) from trial)"""


@pytest.mark.parametrize(
    ("file", "statements", "name", "said"),
    [
        ("journal.sqlite", (OTHER_ENGINE, MOVE), "equal versions", "backend engine: 0.1.0 and 9.0.1.0"),
        (FILE, (OTHER_ENGINE, MOVE), "equal versions", "backend engine"),
        (
            "journal.sqlite",
            ("update trial set environment = null where id = 1",),
            "equal versions",
            "without a recorded environment",
        ),
        (
            "journal.sqlite",
            ("update trial set seed = seed + 1 where purpose = 'search' and number = 2 and system = 'tpp'",),
            "equal seeds of the search",
            "tpp searched on other seeds",
        ),
        (
            "journal.sqlite",
            ("update trial set seed = seed + 1 where purpose = 'validation' and system = 'tpp'",),
            "equal seeds of the validation",
            "tpp has other seeds",
        ),
        (
            FILE,
            ("update trial set seed = seed + 1 where system = 'all-fast' and number = 0",),
            "equal seeds of the validation",
            "yardstick:all-fast has other seeds",
        ),
        (
            "journal.sqlite",
            ("update trial set noise = 'independent' where purpose = 'validation' and system = 'tpp'",),
            "equal conditions",
            "independent noise",
        ),
    ],
    ids=["engine", "engine-of-yardsticks", "environment", "search-seed", "seeds", "yardstick-seed", "noise"],
)
def test_a_tampered_journal_voids_the_comparison(
    compared: Path, tmp_path: Path, file: str, statements: tuple[str, ...], name: str, said: str
) -> None:
    found = _failing(compared, _tamper(compared, tmp_path, file, *statements))
    assert said in found[name]


def test_nothing_is_wrong_before_it_is_tampered_with(compared: Path) -> None:
    assert _failing(compared, compared / "results/small") == {}


RACE = "update trial set origin = 'race', seed = {} where purpose = 'search' and number = 2 and system = '{}'"


def test_races_share_their_seeds_at_whichever_trial_they_are(compared: Path, tmp_path: Path) -> None:
    one = _tamper(compared, tmp_path / "one", "journal.sqlite", RACE.format(7, "tpp"))
    assert _failing(compared, one) == {}
    other = RACE.format(7, "tpp"), RACE.format(8, "hmsdk")
    two = _tamper(compared, tmp_path / "two", "journal.sqlite", *other)
    assert set(_failing(compared, two)) == {"equal seeds of the search"}


def test_a_void_comparison_says_so_first_and_ends_with_2(compared: Path, tmp_path: Path) -> None:
    folder = _tamper(compared, tmp_path, "journal.sqlite", OTHER_ENGINE, MOVE)
    done = tiertune("compare", compared / "small.yaml", "--results", tmp_path)
    assert done.exit_code == 2
    assert "This comparison is void: equal versions not given: equal versions: " in done.stderr
    found = json.loads((folder / "comparison.json").read_text())
    assert found["verdict"].startswith("This comparison is void")
    assert "Nothing below may be concluded from" in (folder / "comparison.html").read_text()


def test_budgets_that_differ_void_the_comparison(compared: Path, tmp_path: Path) -> None:
    """A journal with a trial too many: no run of ours makes one, so it is put there."""
    columns = "campaign, cell, purpose, scenario, system, config, seed, noise, origin, fidelity, status, cost"
    more = f"""insert into trial ({columns}, number, ask_cpu_s, started_at, environment)
        select {columns}, 99, 0, started_at, environment from trial
        where purpose = 'search' and system = 'tpp' and number = 2 and cell like '%#2' limit 1"""
    found = _failing(compared, _tamper(compared, tmp_path, "journal.sqlite", more))
    assert "has 4" in found["equal budgets"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text + "memory: start\n", "the valid value for a comparison is off"),
        (
            lambda text: (
                text.replace("system: tpp, space: tpp", "system: hemem, space: hemem") + "presets: true\n"
            ),
            "presets: true favours systems that somebody tuned before; the valid value",
        ),
        (
            lambda text: (
                text.replace("system: tpp, space: tpp", "system: hemem, space: ./advised.yaml")
                + "priors: true\n"
            ),
            "priors: true favours systems that somebody tuned before; the valid value",
        ),
        (lambda text: text.replace("initial: 2", "initial: 2, stop: {}"), "stop lets searches end at"),
        (
            lambda text: text.replace("initial: 2", "initial: 2, short_runs: 0.1"),
            "short_runs makes some trials",
        ),
        (
            lambda text: text.replace("searches: 3", "searches: 2"),
            "the smallest valid value for a comparison is 3",
        ),
        (
            lambda text: re.sub(".*space: (tpp|autonuma).*\n", "", text),
            "one system is nothing to compare",
        ),
    ],
    ids=["memory", "presets", "priors", "stop", "short-runs", "two-searches", "one-system"],
)
def test_what_is_no_comparison_is_refused(tmp_path: Path, change: Callable[[str], str], said: str) -> None:
    path = write_comparison(tmp_path)
    path.write_text(change(path.read_text()))
    refused = tiertune("compare", path, "--results", tmp_path / "results")
    assert refused.exit_code == 2
    assert said in refused.stderr
    assert not (tmp_path / "results").exists()


def test_reports_of_campaigns_tell_searches_apart() -> None:
    key = "gups/skx-numa/1:4/default-threads/2MiB/hemem"
    assert [search_words(f"{key}{end}") for end in ("", "#2", "#13")] == ["", ", search 2", ", search 13"]
    assert search_words("odd#name/gups/hemem") == ""


def test_dry_run_writes_nothing(tmp_path: Path) -> None:
    plan = tiertune(
        "compare", write_comparison(tmp_path), "--results", tmp_path / "results", "--dry-run", "--json"
    )
    assert plan.exit_code == 0
    described = json.loads(plan.stdout)
    assert len(described["cells"]) == 2 * len(SYSTEMS) * SEARCHES
    assert any(file.endswith("comparison.html") for file in described["files"])
    assert not (tmp_path / "results").exists()


def test_the_shipped_campaigns_are_comparisons() -> None:
    for name in ("compare", "compare-small"):
        done = tiertune("compare", name, "--dry-run", "--json")
        assert done.exit_code == 0, done.stderr
    described = json.loads(tiertune("compare", "compare", "--dry-run", "--json").stdout)
    assert len(described["cells"]) >= 10 * 6 * 2 * 3


def test_figures_are_written_and_the_page_opened(
    compared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("compare", compared / "small.yaml", "--results", compared / "results")
    page = compared / "results/small/comparison.html"
    check_figures(command, page, tmp_path / "figures", monkeypatch)


def test_the_gallery_says_which_command_makes_its_entries_again(compared: Path, tmp_path: Path) -> None:
    results = tmp_path / "results"
    shutil.copytree(compared / "results", results)
    commands = set()
    for _ in range(2):
        gathered = tiertune("gallery", "small", "--results", results)
        assert gathered.exit_code == 0, gathered.stderr
        for path in (results / "gallery").glob("*.yaml"):
            commands |= {entry.made_by.command for entry in load_gallery(str(path)).entries}
        (results / "small" / "comparison.json").unlink(missing_ok=True)
    again = "results/small/campaign.yaml --results results-again"
    assert commands == {f"tiertune compare {again}", f"tiertune tune {again}"}
