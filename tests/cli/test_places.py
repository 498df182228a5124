"""Where trials are to run: what is written wrongly is refused before anything is planned or installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.small import tiertune, write_small

WRONG = [
    (["--here", "foo"], "--here: 'foo' is neither auto nor two memory nodes such as 0,1"),
    (["--container", "foo"], "--container: 'foo' is neither auto nor memory nodes such as 0,1 or 0"),
    (["--hosts", "no.yml"], "--hosts no.yml: there is no such file; docs/fleet.md shows an inventory"),
    (["--mixed-hosts"], "--mixed-hosts goes with --hosts, which names the hosts that may be unlike"),
]


@pytest.mark.parametrize(("options", "said"), WRONG)
def test_a_wrong_place_is_refused_by_plans_too(options: list[str], said: str, tmp_path: Path) -> None:
    for command in (
        ["tune", write_small(tmp_path)],
        ["nightly", "install", "panel-small"],
        ["nightly", "run", "panel-small"],
    ):
        refused = tiertune(*command, "--dry-run", *options, "--results", tmp_path / "results")
        assert refused.exit_code == 2, command
        assert (refused.stdout, refused.stderr) == ("", f"tiertune: {said}\n")


def test_a_place_that_is_not_there_now_may_be_named_for_later() -> None:
    shown = tiertune("nightly", "install", "panel-small", "--dry-run", "--cron", "--here", "0,7")
    assert shown.exit_code == 0, shown.stderr
    assert "--here 0,7" in shown.stdout


@pytest.mark.parametrize(("metric", "exit_code"), [("migrated_bytes", 2), ("hint_faults", 0)])
def test_a_constraint_that_no_live_run_measures_is_refused(
    metric: str, exit_code: int, tmp_path: Path
) -> None:
    """Each configuration would break it, and only the default would be left after all runs."""
    campaign = write_small(tmp_path)
    rule = f"constraints: [{{metric: {metric}, at_most: 1.1, of_default: true}}]\n"
    campaign.write_text(campaign.read_text().replace("./small-workload.yaml", "gups-host@ci") + rule)
    planned = tiertune("tune", campaign, "--here", "0,1", "--dry-run", "--results", tmp_path / "results")
    assert planned.exit_code == exit_code, planned.stderr
    if exit_code:
        assert planned.stderr == (
            "tiertune: constraints[0].metric: migrated_bytes is not measured in live runs of gups-host@ci"
            " under hemem; there are hint_faults, runtime_s, samples, throughput_mops\n"
        )


def test_short_runs_are_refused_where_programs_run_whole(tmp_path: Path) -> None:
    campaign = write_small(tmp_path)
    text = campaign.read_text().replace("./small-workload.yaml", "./four.yaml")
    campaign.write_text(text.replace("random_share: 0.2", "random_share: 0.2, short_runs: 0.25"))
    (tmp_path / "four.yaml").write_text(
        "name: four\nversion: 1\ndescription: d\nsource: s\nmetric: {name: runtime_s, direction: minimize}\n"
        "threads: 2\nsim:\n"
        "  record: {kernel: gups, table_bytes: 16MiB, hot_bytes: 2MiB, updates: 500000, seed: 1}\n"
        "  carry: {table_bytes: 512MiB, hot_bytes: 64MiB, runs: 4}\n"
    )
    simulated = tiertune("tune", campaign, "--dry-run", "--results", tmp_path / "results")
    assert simulated.exit_code == 0, simulated.stderr
    refused = tiertune("tune", campaign, "--here", "0,1", "--dry-run", "--results", tmp_path / "results")
    assert refused.exit_code == 2
    assert refused.stderr.startswith("tiertune: budget.short_runs: programs run whole on hosts (--here)")


def test_a_metric_that_only_the_model_has_is_refused_live(tmp_path: Path) -> None:
    campaign = write_small(tmp_path)
    kernel = "native: {kernel: gups, table_bytes: 16MiB, hot_bytes: 2MiB, updates: 500000}\n"
    workload = tmp_path / "small-workload.yaml"
    workload.write_text(workload.read_text().replace("name: runtime_s", "name: stall_s") + kernel)
    refused = tiertune("tune", campaign, "--here", "0,1", "--dry-run", "--results", tmp_path / "results")
    assert refused.exit_code == 2
    assert refused.stderr.startswith(
        "tiertune: metric of the workload: stall_s is not measured in live runs of"
    )
