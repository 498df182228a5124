"""Every other command: what it prints, as tables and as JSON."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from tests.cli.small import WORKLOAD, tiertune, write_small
from tiertune import __version__, engine
from tiertune.tuner.api.evaluation import parse_seeds
from tiertune.tuner.cli.app import app, describe_only
from tiertune.tuner.cli.doctor import _tracking
from tiertune.tuner.cli.failures import say

_GROUP = get_command(app)
assert isinstance(_GROUP, TyperGroup)
BY_NAME = _GROUP.commands
COMMANDS = tuple(BY_NAME)
COMMAND = Path(sys.executable).with_name("tiertune")


def shell(*arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([COMMAND, *arguments], capture_output=True, text=True, timeout=120, env=env)


def test_without_arguments_it_says_what_to_do_first() -> None:
    said = shell()
    assert said.returncode == 0
    assert "tiertune demo" in said.stdout
    assert said.stderr == ""


def test_version() -> None:
    assert tiertune("--version").stdout == f"tiertune {__version__}\n"


def test_help_imports_nothing_heavy() -> None:
    """What makes it quick, which `make bench` measures: seconds would hang on who else uses this machine."""
    probe = (
        "import json, sys; before = set(sys.modules); from tiertune.tuner.cli import main\n"
        "sys.argv = ['tiertune', '--help']\n"
        "try: main()\n"
        "except SystemExit: print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    printed = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True).stdout
    loaded = json.loads(printed.splitlines()[-1])
    packages = {name.partition(".")[0] for name in loaded} - sys.stdlib_module_names
    of_typer = {"typer", "annotated_doc", "shellingham"}
    assert packages <= {"tiertune"} | of_typer


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_an_example_in_80_columns(command: str) -> None:
    text = tiertune(command, "--help").stdout
    assert f"tiertune {command}" in text.split("Options:")[0].split("Example")[1]
    assert max(map(len, text.splitlines())) <= 80


def test_a_command_that_is_named_is_described_alone_and_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    commands, groups = app.registered_commands, app.registered_groups
    for word in (*COMMANDS, "--help", "tun"):
        with monkeypatch.context() as undone:
            undone.setattr(app, "registered_commands", commands)
            undone.setattr(app, "registered_groups", groups)
            describe_only(word)
            made = get_command(app)
        assert isinstance(made, TyperGroup)
        assert tuple(made.commands) == ((word,) if word in COMMANDS else COMMANDS)
        for name, command in made.commands.items():
            told = [
                one.get_help(one.make_context(name, [], resilient_parsing=True))
                for one in (command, BY_NAME[name])
            ]
            assert told[0] == told[1]


def test_the_list_of_commands_is_complete() -> None:
    text = tiertune("--help").stdout
    for command in COMMANDS:
        assert f"\n  {command} " in text
    assert max(map(len, text.splitlines())) <= 80
    assert "..." not in text.split("Commands:")[1]


@pytest.mark.parametrize(
    "kind", ["systems", "workloads", "machines", "campaigns", "spaces", "suites", "sweeps", "claims"]
)
def test_lists(kind: str) -> None:
    document = json.loads(tiertune("list", kind, "--json").stdout)
    assert document
    assert all(row["name"] and row["description"] for row in document)
    text = tiertune("list", kind).stdout
    assert max(map(len, text.splitlines())) <= 80
    for row in document:
        assert any(line.startswith(row["name"]) for line in text.splitlines())


def test_an_unknown_list_names_the_choices() -> None:
    refused = tiertune("list", "system")
    assert refused.exit_code == 2
    assert "systems" in refused.stderr


def test_show_is_what_the_engine_declares() -> None:
    document = json.loads(tiertune("show", "hemem", "--json").stdout)
    declared = engine.system("hemem")
    assert [knob["name"] for knob in document["knobs"]] == [knob.name for knob in declared.knobs]
    assert document["config"] == engine.check_config("hemem", {})
    text = tiertune("show", "hemem", "--all").stdout
    assert max(map(len, text.splitlines())) <= 80
    for knob in declared.knobs:
        assert knob.name in text


def test_show_native_reads_back_through_config(tmp_path: Path) -> None:
    block = tmp_path / "pebs.h"
    block.write_text(tiertune("show", "hemem", "-k", "read_hot_threshold=3", "--native").stdout)
    assert "#define HOT_READ_THRESHOLD        (3UL)" in block.read_text()
    back = json.loads(tiertune("show", "hemem", "--config", block, "--json").stdout)
    assert back["config"]["read_hot_threshold"] == 3


def test_a_system_without_knobs_says_so() -> None:
    assert "no knobs" in tiertune("show", "all-fast").stdout


def test_run_prints_declared_metrics_and_medians(tmp_path: Path) -> None:
    write_small(tmp_path)
    common: list[str | Path] = [
        "run",
        "hemem",
        "-w",
        tmp_path / "small-workload.yaml",
        "-m",
        "skx-numa",
        "--results",
        tmp_path / "r",
    ]
    document = json.loads(tiertune(*common, "--seeds", "1-3", "-k", "read_hot_threshold=2", "--json").stdout)
    assert [run["seed"] for run in document["runs"]] == [1, 2, 3]
    assert document["config"]["read_hot_threshold"] == 2
    runtimes = sorted(run["metrics"]["runtime_s"] for run in document["runs"])
    assert document["median"]["runtime_s"] == runtimes[1]
    again = json.loads(tiertune(*common, "--seeds", "1-3", "-k", "read_hot_threshold=2", "--json").stdout)
    assert again == document
    text = tiertune(*common, "--seeds", "1-3").stdout
    for metric in engine.metrics():
        assert f"\n{metric.name} " in text
    assert max(map(len, text.splitlines())) <= 80


def test_run_knobs_matter(tmp_path: Path) -> None:
    write_small(tmp_path)
    common: list[str | Path] = [
        "-w",
        tmp_path / "small-workload.yaml",
        "-m",
        "skx-numa",
        "--results",
        tmp_path / "r",
        "--json",
    ]
    fast = json.loads(tiertune("run", "all-fast", *common).stdout)["median"]["runtime_s"]
    slow = json.loads(tiertune("run", "all-slow", *common).stdout)["median"]["runtime_s"]
    hemem = json.loads(tiertune("run", "hemem", *common).stdout)["median"]["runtime_s"]
    never = json.loads(
        tiertune("run", "hemem", *common, "-k", "read_hot_threshold=64", "-k", "cooling_threshold=2").stdout
    )["median"]["runtime_s"]
    assert fast < hemem < slow * 1.05
    assert never > hemem


def test_run_in_reference_mode_is_close_to_fast_mode(tmp_path: Path) -> None:
    (tmp_path / "tiny.yaml").write_text(WORKLOAD.replace("ops: 1e9", "ops: 2e6"))
    common: list[str | Path] = [
        "run",
        "notier",
        "-w",
        tmp_path / "tiny.yaml",
        "-m",
        "skx-numa",
        "--results",
        tmp_path / "r",
        "--json",
    ]
    runtimes = {}
    for mode in ("fast", "reference"):
        document = json.loads(tiertune(*common, "--mode", mode).stdout)
        assert document["scenario"]["mode"] == mode
        runtimes[mode] = document["median"]["runtime_s"]
    assert runtimes["reference"] == pytest.approx(runtimes["fast"], rel=0.05)
    assert runtimes["reference"] != runtimes["fast"]


def test_record_describes_a_workload(tmp_path: Path) -> None:
    write_small(tmp_path)
    common: list[str | Path] = [
        "record",
        tmp_path / "small-workload.yaml",
        "-m",
        "skx-numa",
        "--results",
        tmp_path / "r",
    ]
    document = json.loads(tiertune(*common, "--json").stdout)
    assert document["footprint_bytes"] == 2 << 30
    assert "2 GiB" in tiertune(*common).stdout


def test_show_says_how_a_graph_is_loaded() -> None:
    assert json.loads(tiertune("show", "bc-kron", "--json").stdout)["loading"]["name"] == "generated"
    assert "loading    generated (" in tiertune("show", "bc-kron").stdout
    assert json.loads(tiertune("show", "gups", "--json").stdout)["loading"] is None
    assert "loading" not in tiertune("show", "gups").stdout


def test_a_config_file_is_yaml_too(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("read_hot_threshold: 5\nmigration_period_ms: 20\n")
    config = json.loads(tiertune("show", "hemem", "--config", path, "--json").stdout)["config"]
    assert (config["read_hot_threshold"], config["migration_period_ms"]) == (5, 20.0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["show", "hemen"], "did you mean 'hemem'?"),
        (["show", "hemem", "-k", "read_hot_treshold=2"], "did you mean 'read_hot_threshold'?"),
        (["show", "hemem", "-k", "read_hot_threshold=65"], "nearest valid value is 64"),
        (["show", "hemem", "-k", "read_hot_threshold"], "NAME=VALUE"),
        (["show", "hemem", "-k", "read_hot_threshold=[1]"], "takes a number, true, false or a word"),
        (["show", "hemem", "--config", "no-such.yaml"], "no such config file"),
        (["run", "hemem", "-w", "bc-krn", "-m", "skx-numa"], "did you mean 'bc-kron'?"),
        (["run", "hemem", "-w", "bc-kron", "-m", "skx-num"], "did you mean 'skx-numa'?"),
        (["run", "hemem", "-w", "bc-kron", "-m", "skx-numa", "--ratio", "1-8"], "--ratio: '1-8'"),
        (["run", "hemem", "-w", "bc-kron", "-m", "skx-numa", "--page-size", "2MB!"], "--page-size: '2MB!'"),
        (["run", "hemem", "-w", "bc-kron", "-m", "skx-numa", "--page-size", "1GiB"], "2MiB"),
        (["run", "hemem", "-w", "bc-kron", "-m", "skx-numa", "--seeds", "5-1"], "nearest valid range is 1-5"),
        (["run", "hemem", "-w", "bc-kron", "-m", "skx-numa", "--seeds", "one"], "'one' is no seed"),
        (["run", "hemem", "-w", "bc-kron", "-m", "skx-numa", "--threads", "99"], "99"),
        (["tune", "no-such-campaign"], "there is no campaign 'no-such-campaign'"),
        (["tune", "demo", "--name", "a/b", "--dry-run"], "--name a/b"),
        (["resume", "no-such-campaign"], "no journal"),
        (["report", "no-such-campaign"], "no journal"),
        (["ui", "--port", "-1"], "'--port'"),
        (["ui"], "no such folder"),
        (["frobnicate"], "No such command"),
    ],
)
def test_bad_input_ends_with_2_and_words(arguments: list[str], words: str, tmp_path: Path) -> None:
    takes_results = arguments[0] not in ("show", "frobnicate")
    results = ["--results", str(tmp_path / "results")] if takes_results else []
    refused = tiertune(*arguments, *results)
    assert refused.exit_code == 2, refused.stderr
    assert words in refused.stderr
    assert refused.stdout == ""
    assert "Traceback" not in refused.stderr
    assert not (tmp_path / "results").exists()


def test_seeds() -> None:
    assert parse_seeds("1") == [1]
    assert parse_seeds("1-3,7, 2") == [1, 2, 3, 7]


def test_doctor_finds_this_machine_fit(tmp_path: Path) -> None:
    done = tiertune("doctor", "--results", tmp_path, "--json")
    document = json.loads(done.stdout)
    assert document["fit"]
    assert done.exit_code == 0
    assert {f["name"] for f in document["findings"]} == {
        "python",
        "engine",
        "packages",
        "memory",
        "disk",
        "results",
        "mlflow db",
        "port",
    }
    assert list(tmp_path.iterdir()) == []
    text = tiertune("doctor", "--results", tmp_path).stdout
    assert "Fit for campaigns" in text


def test_doctor_without_the_engine_is_unfit_and_says_the_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "tiertune_engine", None)
    done = tiertune("doctor", "--results", tmp_path)
    assert done.exit_code == 3
    assert "engine: make setup" in done.stdout


def test_a_missing_engine_is_an_unfit_host(monkeypatch: pytest.MonkeyPatch) -> None:
    engine.systems.cache_clear()
    monkeypatch.setitem(sys.modules, "tiertune_engine", None)
    try:
        done = tiertune("list", "systems")
    finally:
        engine.systems.cache_clear()
    assert done.exit_code == 3
    assert "make setup" in done.stderr


def test_our_bugs_end_with_1_and_keep_the_traceback(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken() -> None:
        raise RuntimeError("a wheel came off")

    monkeypatch.setattr(engine, "systems", broken)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    done = tiertune("list", "systems")
    assert done.exit_code == 1
    (line,) = done.stderr.splitlines()
    assert "a bug of ours" in line
    (kept,) = tmp_path.iterdir()
    assert str(kept) in line
    assert "a wheel came off" in kept.read_text()
    assert "Traceback" in kept.read_text()
    assert "Traceback" in tiertune("list", "systems", env={"TIERTUNE_DEBUG": "1"}).stderr


def test_colour_is_for_terminals_only() -> None:
    assert "\x1b[" not in shell("list", "systems").stdout
    assert "\x1b[" not in shell("show", "hemem").stdout


@pytest.mark.parametrize("columns", ["", "wide", "0", "-1"])
def test_columns_that_say_nothing_are_80(columns: str) -> None:
    listed = tiertune("list", "systems", env={"COLUMNS": columns})
    assert listed.exit_code == 0, listed.stderr
    assert listed.stdout == tiertune("list", "systems", env={"COLUMNS": "80"}).stdout
    assert listed.stdout != tiertune("list", "systems", env={"COLUMNS": "60"}).stdout


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    cut = subprocess.run(
        f"{COMMAND} show hemem --all --json | head -c 20", shell=True, capture_output=True, text=True
    )
    assert cut.stderr == ""
    assert len(cut.stdout) == 20


def test_every_line_of_a_complaint_is_marked(capsys: pytest.CaptureFixture[str]) -> None:
    say("one\ntwo")
    assert capsys.readouterr().err == "tiertune: one\ntiertune: two\n"


def test_completion_is_there_for_bash() -> None:
    # It asks which shell it was called from.
    done = subprocess.run(
        ["bash", "-c", '"$0" --show-completion; exit $?', COMMAND], capture_output=True, text=True
    )
    assert "_TIERTUNE_COMPLETE" in done.stdout


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("list", "systms"), "list: 'systms' is none of systems, workloads,"),
        (
            ("run", "hemem", "-w", "gups", "-m", "skx-numa", "--mode", "refrence"),
            "--mode: 'refrence' is none of",
        ),
        (("profile", "import", "--from", "damn", "x.txt", "-o", "x.parquet"), "--from: 'damn' is none of"),
    ],
)
def test_a_word_that_is_none_of_a_few_is_told_with_the_nearest(command: tuple[str, ...], said: str) -> None:
    done = tiertune(*command)
    assert done.exit_code == 2
    assert done.stderr.startswith(f"tiertune: {said}")
    nearest = {"list": "systems", "run": "reference", "profile": "damon"}[command[0]]
    assert done.stderr.endswith(f"did you mean '{nearest}'?\n")


@pytest.mark.parametrize("name", ["plain", "what? 100% #1"])
def test_doctor_reads_the_mlflow_store_of_any_folder(tmp_path: Path, name: str) -> None:
    """It advised to move a good one away."""
    folder = tmp_path / name
    folder.mkdir()
    with closing(sqlite3.connect(folder / "mlflow.sqlite")) as database, database:
        database.execute("create table runs (x)")
        database.execute("insert into runs values (1)")
    found = _tracking(folder)
    assert (found.state, found.detail) == ("ok", f"{folder / 'mlflow.sqlite'}, 1 runs")
