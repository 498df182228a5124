"""`tune`, `resume`, `report` and `ui` on a small campaign."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.small import CAMPAIGN, tiertune, write_small
from tiertune.engine import EngineError
from tiertune.tuner.journal import Journal
from tiertune.tuner.report.document import Report
from tiertune.tuner.trial import Status

TRIALS = 8 + 4 * 6 + 2 * 5


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the small campaign and, in `results`, what came of it."""
    folder = tmp_path_factory.mktemp("tuned")
    done = tiertune("tune", write_small(folder), "--results", folder / "results")
    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith("hemem on small: ")
    assert str(folder / "results" / "small" / "report.html") in done.stdout
    return folder


def rows(folder: Path) -> list[tuple[str, int, str, str]]:
    with Journal(folder / "results" / "small" / "journal.sqlite", writer=False) as journal:
        return [
            (r.trial.purpose, r.trial.number, r.status.value, json.dumps(r.trial.config))
            for r in journal.rows()
        ]


def test_a_campaign_leaves_journal_campaign_and_report(tuned: Path) -> None:
    left = {
        path.name for path in (tuned / "results" / "small").iterdir() if not path.name.startswith("journal.")
    }
    (cell,) = json.loads((tuned / "results/small/report.json").read_text())["cells"]
    better = cell["outcome"] == "improved"
    assert left == {"campaign.yaml", "report.html", "report.json"} | ({"tuned"} if better else set())
    assert len(rows(tuned)) == TRIALS
    assert {status for _, _, status, _ in rows(tuned)} == {"ok"}


def test_the_report_on_file_is_the_one_printed(tuned: Path) -> None:
    printed = tiertune("report", "small", "--results", tuned / "results", "--json")
    assert printed.exit_code == 0
    on_file = (tuned / "results" / "small" / "report.json").read_text()
    assert printed.stdout == on_file
    report = Report.model_validate_json(on_file)
    assert report.complete
    assert report.cells[0].workload == "small"
    assert report.cells[0].threads == 4
    assert len(report.cells[0].timelines) == 2


def test_the_report_again_is_the_same_to_the_byte(tuned: Path) -> None:
    html = tuned / "results" / "small" / "report.html"
    before = html.read_bytes()
    assert tiertune("report", "small", "--results", tuned / "results").exit_code == 0
    assert html.read_bytes() == before


def test_markdown(tuned: Path) -> None:
    printed = tiertune("report", tuned / "small.yaml", "--results", tuned / "results", "--markdown")
    assert printed.exit_code == 0
    assert printed.stdout.startswith("# hemem on small")


def test_a_finished_campaign_is_not_run_again(tuned: Path) -> None:
    before = rows(tuned)
    again = tiertune("resume", "small", "--results", tuned / "results", "--json")
    assert again.exit_code == 0
    assert rows(tuned) == before
    document = json.loads(again.stdout)
    assert document["complete"]
    assert set(document["cells"][0]["config"]) >= {"read_hot_threshold", "sampling_period"}


def test_equal_campaigns_make_equal_trials_under_another_name(tuned: Path) -> None:
    other = tiertune("tune", tuned / "small.yaml", "--results", tuned / "results", "--name", "twin", "--json")
    assert other.exit_code == 0
    with (
        Journal(tuned / "results" / "small" / "journal.sqlite", writer=False) as first,
        Journal(tuned / "results" / "twin" / "journal.sqlite", writer=False) as second,
    ):
        assert [r.metrics for r in first.rows()] == [r.metrics for r in second.rows()]


def test_equal_campaigns_make_equal_trials_in_another_folder(tuned: Path, tmp_path: Path) -> None:
    assert tiertune("tune", write_small(tmp_path), "--results", tmp_path / "results").exit_code == 0
    assert rows(tmp_path) == rows(tuned)


@pytest.mark.parametrize("command", ["tune", "resume"])
def test_changed_settings_are_refused_and_change_nothing(command: str, tuned: Path) -> None:
    changed = tuned / "changed.yaml"
    changed.write_text(CAMPAIGN.replace("seed: 3", "seed: 4"))
    before = (tuned / "results" / "small" / "campaign.yaml").read_text()
    refused = tiertune(command, changed, "--results", tuned / "results")
    assert refused.exit_code == 2
    assert "seed: 3 -> 4" in refused.stderr
    assert "--name" in refused.stderr
    assert (tuned / "results" / "small" / "campaign.yaml").read_text() == before


def test_the_report_says_that_its_campaigns_file_has_changed(tuned: Path) -> None:
    changed = tuned / "edited.yaml"
    said = "has changed since (campaign.seed: 3 -> 4); the report is of what was run"
    for text, told in ((CAMPAIGN, False), (CAMPAIGN.replace("seed: 3", "seed: 4"), True)):
        changed.write_text(text)
        printed = tiertune("report", changed, "--results", tuned / "results", "--json")
        assert printed.exit_code == 0
        assert printed.stdout == (tuned / "results/small/report.json").read_text()
        assert (said in printed.stderr) is told


def test_a_larger_budget_goes_on_with_extend(tmp_path: Path) -> None:
    campaign = write_small(tmp_path)
    assert tiertune("tune", campaign, "--results", tmp_path / "results").exit_code == 0
    campaign.write_text(CAMPAIGN.replace("trials: 8", "trials: 10"))
    assert tiertune("tune", campaign, "--results", tmp_path / "results").exit_code == 2
    extended = tiertune("tune", campaign, "--results", tmp_path / "results", "--extend")
    assert extended.exit_code == 0, extended.stderr
    assert sum(purpose == "search" for purpose, *_ in rows(tmp_path)) == 10
    # The name alone does not say where the larger budget stands.
    nameless = tiertune("resume", "small", "--results", tmp_path / "results", "--extend")
    assert nameless.exit_code == 2
    assert "--extend takes the larger budget from the campaign's file" in nameless.stderr


def test_dry_run_writes_nothing_and_says_what_it_would(tmp_path: Path) -> None:
    plan = tiertune("tune", write_small(tmp_path), "--results", tmp_path / "results", "--dry-run", "--json")
    assert plan.exit_code == 0
    document = json.loads(plan.stdout)
    assert document["trials"] == TRIALS
    assert document["estimated_s"] is None
    assert document["files"][1] == str(tmp_path / "results" / "small" / "journal.sqlite")
    assert not (tmp_path / "results").exists()


def test_dry_run_estimates_from_what_ran_here(tuned: Path) -> None:
    plan = tiertune(
        "tune", tuned / "small.yaml", "--results", tuned / "results", "--name", "x", "--dry-run", "--json"
    )
    document = json.loads(plan.stdout)
    assert document["trials_done"] == 0
    assert 0 < document["estimated_s"] < 600
    words = tiertune("tune", tuned / "small.yaml", "--results", tuned / "results", "--dry-run")
    assert f"in all {TRIALS} trials, {TRIALS} done before" in words.stdout


@pytest.mark.parametrize("command", ["tune", "explain", "transfer", "gallery"])
def test_dry_run_refuses_what_the_command_would_refuse(command: str, tuned: Path) -> None:
    """The results are of another campaign of that name: its trials are not done for this one."""
    other = tuned / "other.yaml"
    other.write_text(CAMPAIGN.replace("seed: 3", "seed: 4"))
    plan = tiertune(command, other, "--results", tuned / "results", "--dry-run")
    assert plan.exit_code == 2, plan.stdout
    assert "was started with other settings" in plan.stderr
    assert "(campaign.seed: 3 -> 4)" in plan.stderr


def test_dry_run_takes_a_larger_budget_with_extend_alone(tuned: Path) -> None:
    more = tuned / "more.yaml"
    more.write_text(CAMPAIGN.replace("trials: 8", "trials: 9"))
    results = ("--results", tuned / "results", "--dry-run")
    refused = tiertune("tune", more, *results)
    assert refused.exit_code == 2
    assert "add --extend" in refused.stderr
    assert tiertune("tune", more, *results, "--extend").exit_code == 0


def test_dry_run_of_a_journal_that_nothing_was_written_to_is_as_of_none(tmp_path: Path) -> None:
    (tmp_path / "results/small").mkdir(parents=True)
    (tmp_path / "results/small/journal.sqlite").touch()
    plan = tiertune("tune", write_small(tmp_path), "--results", tmp_path / "results", "--dry-run")
    assert plan.exit_code == 0, plan.stderr


def test_reports_of_nothing_name_what_there_is(tuned: Path) -> None:
    missing = tiertune("report", "smal", "--results", tuned / "results")
    assert missing.exit_code == 2
    assert "did you mean 'small'?" in missing.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_says_how_to_go_on_and_resume_does(number: signal.Signals, tmp_path: Path) -> None:
    """In a process of its own: a real signal, in the middle of the search."""
    campaign = write_small(tmp_path)
    campaign.write_text(CAMPAIGN.replace("trials: 8", "trials: 400").replace("workers: 2", "workers: 1"))
    command = [
        Path(sys.executable).with_name("tiertune"),
        "tune",
        campaign,
        "--results",
        tmp_path / "results",
    ]
    running = subprocess.Popen(
        [str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    journal = tmp_path / "results" / "small" / "journal.sqlite"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and running.poll() is None:
        if (
            journal.is_file()
            and (tmp_path / "results" / "small" / "campaign.yaml").is_file()
            and len(rows(tmp_path)) > 3
        ):
            break
        time.sleep(0.05)
    running.send_signal(number)
    _, stderr = running.communicate(timeout=60)
    assert running.returncode == 130, stderr
    assert f"tiertune resume small --results {tmp_path / 'results'}" in stderr
    assert "Traceback" not in stderr
    done = [row for row in rows(tmp_path) if row[2] == Status.OK]
    assert 3 <= len(done) < 400
    partial = tiertune("report", "small", "--results", tmp_path / "results", "--json")
    assert not json.loads(partial.stdout)["complete"]


def recorded(folder: Path) -> Path:
    """The small campaign with a workload that is recorded before its first trial."""
    path = write_small(folder)
    path.write_text(CAMPAIGN.replace("./small-workload.yaml", "gups@smoke").replace("trials: 8", "trials: 4"))
    return path


def test_a_campaign_that_is_stopped_while_it_records_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = tmp_path / "results"

    def stopped(request: object) -> None:
        # Also where it is not asked but killed.
        assert (results / "small/campaign.yaml").is_file()
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("tiertune.workloads.profile.record", stopped)
        first = tiertune("tune", recorded(tmp_path), "--results", results)
    assert first.exit_code == 130, first.stderr
    assert f"tiertune resume small --results {results}" in first.stderr
    resumed = tiertune("resume", "small", "--results", results)
    assert resumed.exit_code == 0, resumed.stderr
    assert len(rows(tmp_path)) > 4


def test_a_campaign_that_does_not_fit_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever names it again means the file, which was corrected meanwhile."""
    results = tmp_path / "results"

    def refused(request: object) -> None:
        raise EngineError("too large")

    with monkeypatch.context() as patched:
        patched.setattr("tiertune.workloads.profile.record", refused)
        assert tiertune("tune", recorded(tmp_path), "--results", results).exit_code == 2
    assert not (results / "small/campaign.yaml").exists()
    again = tiertune("resume", "small", "--results", results)
    assert again.exit_code == 2
    assert f"`tiertune tune FILE --results {results}` goes on" in again.stderr
    assert "there is no campaign" not in again.stderr


def test_a_journal_that_is_none_is_said_to_be_that(tmp_path: Path) -> None:
    folder = tmp_path / "results/small"
    folder.mkdir(parents=True)
    (folder / "journal.sqlite").write_text("this is no database, and was none before" * 40)
    again = tiertune("resume", "small", "--results", tmp_path / "results")
    assert again.exit_code == 2
    assert "not a usable journal" in again.stderr


def test_mlflow_pages_have_a_command(tmp_path: Path) -> None:
    nothing = tiertune("ui", "--mlflow", "--results", tmp_path)
    assert nothing.exit_code == 2
    (tmp_path / "mlflow.sqlite").touch()
    hint = tiertune("ui", "--mlflow", "--results", tmp_path, "--port", "5055")
    assert hint.exit_code == 0
    assert "--host 127.0.0.1 --port 5055" in hint.stdout
    assert f"sqlite:///{tmp_path / 'mlflow.sqlite'}" in hint.stdout
    said = tiertune("ui", "--mlflow", "--results", tmp_path, "--json").stdout
    assert json.loads(said)["url"] == "http://127.0.0.1:5000"


def test_a_results_folder_that_is_a_file_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("not a folder")
    refused = tiertune("tune", write_small(tmp_path), "--results", tmp_path / "results")
    assert refused.exit_code == 2
    assert str(tmp_path / "results") in refused.stderr
    assert "bug" not in refused.stderr


@pytest.mark.parametrize(
    ("options", "named"),
    [(("--trials", "5"), "--trials"), (("--system", "tpp", "--ratio", "1:4"), "--system and --ratio")],
)
def test_options_of_a_workload_are_refused_with_a_campaign(
    tmp_path: Path, options: tuple[str, ...], named: str
) -> None:
    refused = tiertune("tune", write_small(tmp_path), *options, "--results", tmp_path / "results")
    assert refused.exit_code == 2
    assert f"{named}: goes with a workload only" in refused.stderr
    assert not (tmp_path / "results").exists()


def test_the_report_is_on_the_campaigns_mlflow_run(tmp_path: Path) -> None:
    from mlflow import MlflowClient

    from tiertune.tuner.tracking import tracking_uri

    path = write_small(tmp_path)
    text = CAMPAIGN.replace("tracking: {mlflow: false}\n", "").replace("trials: 8", "trials: 4")
    path.write_text(text)
    results = tmp_path / "results"
    results.mkdir()
    client = MlflowClient(tracking_uri=tracking_uri(results))
    client.search_experiments()  # lays out its tables, for which a busy machine needs longer than is waited
    done = tiertune("tune", path, "--results", results)
    assert done.exit_code == 0, done.stderr
    told = [line[9:] for line in done.stderr.splitlines() if "MLflow" in line]
    # Of what went wrong it would say more.
    assert len(told) == 2
    assert re.fullmatch(r"sending \d+ runs to MLflow", told[0])
    assert told[1] == "sending the report to MLflow"
    experiment = client.get_experiment_by_name("tiertune")
    assert experiment is not None
    query = "tags.`tiertune.key` = 'campaign'"
    (run,) = client.search_runs([experiment.experiment_id], query)
    assert run.info.status == "FINISHED"
    kept = {one.path for one in client.list_artifacts(run.info.run_id)}
    better = (results / "small/tuned").is_dir()
    assert kept == {"report.html", "report.json"} | ({"tuned"} if better else set())
