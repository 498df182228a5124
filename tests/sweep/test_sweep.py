"""`tiertune sweep`: rows, figures against other rows, cache, stop and failure."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tiertune as tiertune_api
from tests.cli.small import GAINFUL, tiertune, write_small
from tests.sweep.small import SWEEP, document, one, rows, sweep, write_sweep
from tests.workloads.test_measured import seen
from tiertune import engine
from tiertune.files import InputError
from tiertune.tuner.sweep import cache
from tiertune.tuner.sweep.definition import load_sweep
from tiertune.tuner.sweep.matrix import rows_of
from tiertune.tuner.sweep.measurement import Progress, measure, runs_of
from tiertune.workloads.measured import profile_of
from tiertune.workloads.profile_file import write_profile

Run = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the small sweep and, under `results`, what it left."""
    folder = tmp_path_factory.mktemp("sweep")
    sweep(write_sweep(folder), folder / "results")
    return folder


def counting(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The systems that the engine is asked to run from now on."""
    asked: list[str] = []
    run = engine.run

    def watched(workload: engine.EngineWorkload, request: dict[str, Any]) -> dict[str, Any]:
        asked.append(request["system"])
        return run(workload, request)

    monkeypatch.setattr(engine, "run", watched)
    return asked


def test_every_combination_is_a_row_with_every_metric(swept: Path) -> None:
    found = rows(swept / "results")
    at = [(row["system"], row["config"], row["seed"]) for row in found]
    assert at == [
        ("hemem", "default", 1), ("hemem", "default", 2), ("hemem", "eager", 1), ("hemem", "eager", 2),
        ("notier", "default", 1), ("notier", "default", 2),
    ]  # fmt: skip
    for row in found:
        assert row["status"] == "ok"
        assert set(row["metrics"]) == {metric.name for metric in engine.metrics()}
    assert one(found, config="eager", seed=1)["gauges"]["coolings"] >= 0
    assert one(found, config="eager", seed=1)["knobs"]["sampling_period"] == 1000


def test_a_row_is_what_run_says_of_the_same(swept: Path) -> None:
    said = tiertune(
        "run", "hemem", "-w", swept / "small-workload.yaml", "-m", "skx-numa", "--ratio", "1:4",
        "-k", "sampling_period=1000", "--seeds", "2", "--json", "--results", swept / "results",
    )  # fmt: skip
    expected = json.loads(said.stdout)["runs"][0]["metrics"]
    assert one(rows(swept / "results"), config="eager", seed=2)["metrics"] == expected


def test_figures_against_other_rows(swept: Path) -> None:
    found = rows(swept / "results")
    said = tiertune(
        "run", "all-fast", "-w", swept / "small-workload.yaml", "-m", "skx-numa", "--ratio", "1:4",
        "--json", "--results", swept / "results",
    )  # fmt: skip
    best = json.loads(said.stdout)["runs"][0]["metrics"]["runtime_s"]
    for row in found:
        mine = row["metrics"]["runtime_s"]
        other = one(found, system="notier", seed=row["seed"])
        assert row["compared_with"] == {"notier": other["id"]}
        assert row["derived"]["slowdown"] == pytest.approx(mine / best, rel=1e-12)
        speedup = other["metrics"]["runtime_s"] / mine
        assert row["derived"]["notier.speedup"] == pytest.approx(speedup, rel=1e-12)
        points = row["derived"]["slowdown_pct"] - other["derived"]["slowdown_pct"]
        assert row["derived"]["notier.slowdown_points"] == pytest.approx(points)
    group = one(document(swept / "results")["groups"], config="eager")
    values = [one(found, config="eager", seed=seed)["metrics"]["samples"] for seed in (1, 2)]
    spread = group["statistics"]["samples"]
    assert spread == {"seeds": 2, "median": sum(values) / 2, "lowest": min(values), "highest": max(values)}


def test_early_promotions_are_their_share_of_all(swept: Path) -> None:
    found = rows(swept / "results")
    promoting = [row for row in found if row["metrics"]["promotions"]]
    assert promoting
    for row in promoting:
        share, early = (row["derived"][name] for name in ("early_promotion_share", "early_promotions"))
        assert early == pytest.approx(share * row["metrics"]["promotions"])
    assert not any("early_promotions" in row["derived"] for row in found if row not in promoting)


def test_what_is_observed_is_asked_for(swept: Path) -> None:
    plain = one(rows(swept / "results"), config="eager", seed=1)
    assert "observed" not in plain
    text = SWEEP.replace("name: small", "name: watched\nobserve: [counters, objects, gauges]")
    path = swept / "watched.yaml"
    path.write_text(text.replace("slowdown, rank", "counter.stall_cycles, object.table.samples_per_page"))
    said = sweep(path, swept / "results", "--seeds", "1").stdout
    assert "counter.stall_cycles" in said
    row = one(rows(swept / "results", "watched"), config="eager", seed=1)
    assert row["metrics"] == plain["metrics"]
    assert not row["derived"].keys() & row["observed"].keys()
    counted = {f"counter.{figure.name}" for figure in engine.observed()["counter"]}
    assert counted <= row["observed"].keys()
    (name,) = {name.split(".")[1] for name in row["observed"] if name.startswith("object.")}
    figures = [figure.name for figure in engine.observed()["object"]]
    of_object = {figure: row["observed"][f"object.{name}.{figure}"] for figure in figures}
    pages = row["footprint_bytes"] / row["page_bytes"]
    assert of_object["samples_per_page"] * pages == pytest.approx(row["metrics"]["samples"])
    assert of_object["reads_per_page"] * pages == pytest.approx(row["metrics"]["simulated_accesses"])
    assert row["observed"]["gauge.coolings.highest"] <= row["gauges"]["coolings"]
    group = one(document(swept / "results", "watched")["groups"], config="eager")
    assert group["statistics"]["counter.stall_cycles"]["median"] == row["observed"]["counter.stall_cycles"]
    # Without counters they are no figures, and what is counted of an object is known.
    for show, hint in (
        ("counter.stall_cycles", "is counted where it is asked for; add observe: [counters]"),
        ("object.t.cv", "is counted where it is asked for; add observe: [objects]"),
    ):
        refused = tiertune("sweep", swept / "small.yaml", "--show", show, "--results", swept / "results")
        assert refused.exit_code == 2
        assert hint in refused.stderr
    refused = tiertune("sweep", path, "--show", "object.t.smples_cv", "--results", swept / "results")
    assert "such as object.NAME.samples_cv" in refused.stderr


def test_parquet_holds_the_rows_of_the_json(swept: Path) -> None:
    import pyarrow.parquet as pq

    table = pq.read_table(swept / "results/sweeps/small/rows.parquet").to_pylist()
    for stored, row in zip(table, rows(swept / "results"), strict=True):
        for name in (
            "id",
            "system",
            "config",
            "fast",
            "threads",
            "page_bytes",
            "seed",
            "status",
            "fast_bytes",
        ):
            assert stored[name] == row[name]
        assert json.loads(stored["knobs"]) == row["knobs"]
        for name, value in {**row["metrics"], **row["derived"]}.items():
            assert stored[name] == value
    assert not (swept / "results/sweeps/small/timelines.parquet").exists()


def test_the_table_has_the_chosen_columns_in_80(swept: Path) -> None:
    said = sweep(swept / "small.yaml", swept / "results", "--show", "runtime_s,rank,samples,gauge.coolings")
    lines = said.stdout.splitlines()
    assert lines[0].split() == ["system", "config", "runtime_s", "rank", "samples", "gauge.coolings"]
    assert [line.split()[:2] for line in lines[1:4]] == [
        ["hemem", "default"], ["hemem", "eager"], ["notier", "default"],
    ]  # fmt: skip
    assert "median over 2 seeds" in said.stdout
    across = sweep(swept / "small.yaml", swept / "results", "--by", "system", "--across", "seed").stdout
    assert max(len(line) for line in across.splitlines() if not line.startswith("/")) <= 80
    wrong = tiertune("sweep", swept / "small.yaml", "--show", "slowdwn")
    assert (wrong.exit_code, wrong.stderr) == (
        2, "tiertune: --show slowdwn: 'slowdwn' is nothing that a sweep measures; did you mean 'slowdown'?\n",
    )  # fmt: skip


def test_json_is_the_document(swept: Path) -> None:
    printed = json.loads(sweep(swept / "small.yaml", swept / "results", "--json").stdout)
    files = printed.pop("files")
    assert printed == document(swept / "results")
    assert all(Path(file).is_file() for file in files)


def test_a_second_run_measures_nothing_and_leaves_the_same(
    swept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = counting(monkeypatch)
    before = (swept / "results/sweeps/small/rows.json").read_bytes()
    sweep(swept / "small.yaml", swept / "results")
    assert asked == []
    assert (swept / "results/sweeps/small/rows.json").read_bytes() == before


def test_rows_do_not_depend_on_jobs_or_the_cache(
    swept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = counting(monkeypatch)
    path = write_sweep(tmp_path)
    sweep(path, tmp_path, "--jobs", "1")
    sweep(path, tmp_path, "--fresh", "--jobs", "3")
    assert len(asked) == 2 * (6 + 2)
    without_times = [{**row, "wall_s": 0} for row in rows(tmp_path)]
    assert without_times == [{**row, "wall_s": 0} for row in rows(swept / "results")]


def test_timelines_on_request_also_of_cached_rows(swept: Path) -> None:
    import pyarrow.parquet as pq

    sweep(swept / "small.yaml", swept / "results", "--timelines")
    table = pq.read_table(swept / "results/sweeps/small/timelines.parquet").to_pandas()
    found = rows(swept / "results")
    assert list(table["id"].unique()) == [row["id"] for row in found]
    for identity, series in table.groupby("id"):
        row = one(found, id=identity)
        assert series["time_s"].iloc[-1] == pytest.approx(row["metrics"]["runtime_s"])
        assert series["time_s"].is_monotonic_increasing


def test_ctrl_c_keeps_what_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = counting(monkeypatch)
    loaded = load_sweep(str(write_sweep(tmp_path)))
    plans = rows_of(loaded, tmp_path)

    def stop(progress: Progress) -> None:
        if progress.done == 3:
            raise KeyboardInterrupt

    def go(listener: Callable[[Progress], None]) -> None:
        measure(plans, tmp_path, jobs=1, fresh=False, timelines=False, notify=print, listener=listener)

    with pytest.raises(KeyboardInterrupt):
        go(stop)
    first = len(asked)
    assert first < len(runs_of(plans))
    seen: list[Progress] = []
    go(seen.append)
    # Only what was in flight when the key was hit may be run twice.
    assert len(asked) <= len(runs_of(plans)) + 1
    assert seen[0].cached >= 3
    assert seen[-1].done == len(runs_of(plans))


def test_ctrl_c_ends_with_130_and_a_way_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tiertune.tuner.sweep.measurement.measure", stop)
    said = tiertune("sweep", write_sweep(tmp_path), "--results", tmp_path)
    assert said.exit_code == 130
    assert "the same command goes on" in said.stderr
    afresh = tiertune("sweep", write_sweep(tmp_path), "--results", tmp_path, "--fresh")
    assert "the same command without --fresh goes on" in afresh.stderr


class Panic(BaseException):
    """What a panic of the engine looks like from Python: no `Exception`."""


@pytest.mark.parametrize("error", [RuntimeError("broken"), Panic("broken")])
def test_a_crash_is_a_row_and_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    run = engine.run

    def broken(workload: engine.EngineWorkload, request: dict[str, Any]) -> dict[str, Any]:
        if request["config"].get("sampling_period") == 1000 and request["seed"] == 2:
            raise error
        return run(workload, request)

    path = write_sweep(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(engine, "run", broken)
        said = tiertune("sweep", path, "--results", tmp_path)
    assert said.exit_code == 1
    row = one(rows(tmp_path), config="eager", seed=2)
    assert (row["status"], row["error"]) == ("crashed", f"{type(error).__name__}: broken")
    assert "crashed, 1 row" in said.stdout
    assert document(tmp_path)["statuses"] == {"crashed": 1, "ok": 5}
    asked = counting(monkeypatch)
    sweep(path, tmp_path)
    assert asked == ["hemem"]


def test_what_cannot_be_combined_is_a_row_with_a_reason(tmp_path: Path) -> None:
    text = SWEEP.replace('ratios: ["1:4"]', 'ratios: ["1:4", "1:5000"]').replace(
        "seeds: [1, 2]",
        "threads: [4, 8]\npage_sizes: [2MiB, 8KiB]\n"
        "contention: [{name: quiet}, {name: third, traffic: [{tier: 2, read_gbps: 1}]}]\nfast_bytes: [1TiB]",
    )
    said = sweep(write_sweep(tmp_path, text), tmp_path)
    found = rows(tmp_path)
    assert len(found) == 3 * 3 * 2 * 2 * 2
    assert sum(row["status"] == "ok" for row in found) == 3
    assert all(row["error"] for row in found if row["status"] == "not-applicable")

    def reason(**at: object) -> str:
        usual = {
            "system": "notier",
            "fast": "1:4",
            "threads": 4,
            "contention": "quiet",
            "page_bytes": 2 << 20,
        }
        return str(one(found, **{**usual, **at})["error"])

    assert "less than a page" in reason(fast="1:5000")
    assert "GiB of fast memory, 1TiB are asked for" in reason(fast="1TiB")
    assert reason(threads=8) == "the streams of small run on 4 threads, not on 8"
    assert reason(page_bytes=8192) == "notier does not manage pages of 8KiB; it manages 2MiB and 4KiB"
    assert reason(contention="third") == "contention third: skx-numa has no tier 2"
    assert "not-applicable" in said.stdout


def test_what_the_engine_refuses_is_a_row_too(tmp_path: Path) -> None:
    text = SWEEP.replace(
        "seeds: [1, 2]",
        "contention: [{name: full, traffic: [{tier: 0, read_share: 0.9, write_share: 0.9}]}, {name: no}]",
    )
    sweep(write_sweep(tmp_path, text), tmp_path)
    row = one(rows(tmp_path), contention="full", system="notier")
    assert row["status"] == "not-applicable"
    assert "leave room for the workload" in row["error"]


def test_where_nothing_can_run_it_is_bad_input(tmp_path: Path) -> None:
    said = tiertune("sweep", write_sweep(tmp_path, SWEEP + "threads: [8]\n"), "--results", tmp_path)
    assert said.exit_code == 2
    assert "no combination can run" in said.stderr
    assert "run on 4 threads, not on 8" in said.stderr
    assert not (tmp_path / "sweeps").exists()


def test_shares_are_of_the_peak(tmp_path: Path) -> None:
    text = SWEEP.replace(
        "seeds: [1, 2]", "contention: [{name: half, traffic: [{tier: 1, read_share: 0.5, write_gbps: 2}]}]"
    )
    plans = rows_of(load_sweep(str(write_sweep(tmp_path, text))), tmp_path)
    assert plans[0].run is not None
    tier = plans[0].run.setting.machine.tiers[1]
    assert plans[0].contention == ({"tier": 1, "read_gbps": 0.5 * tier.read_gbps, "write_gbps": 2.0},)
    assert plans[0].run.request(1 << 31)["contention"] == list(plans[0].contention)


def test_contention_costs(tmp_path: Path) -> None:
    text = SWEEP.replace(
        "seeds: [1, 2]", "contention: [{name: quiet}, {name: busy, traffic: [{tier: 1, read_share: 0.8}]}]"
    ).replace("relative_to: [", "relative_to: [{name: vs-quiet, contention: quiet}, ")
    sweep(write_sweep(tmp_path, text), tmp_path)
    found = rows(tmp_path)
    assert one(found, system="notier", contention="busy")["derived"]["vs-quiet.runtime_s"] > 1.1
    assert one(found, system="notier", contention="quiet")["derived"]["vs-quiet.runtime_s"] == 1.0


def test_overrides_change_workload_and_machine(tmp_path: Path) -> None:
    overrides = """overrides:
  - {name: as-is}
  - {name: half-work, workload: {"sim.streams.blocks[0].phases[0].groups[0].ops": 5e8}}
  - {name: far, machine: {"tiers[1].latency_ns": 1000}}
  - {name: carried, workload: {sim.carry.scale: 20}}
"""
    sweep(write_sweep(tmp_path, SWEEP.replace("seeds: [1, 2]\n", overrides)), tmp_path)
    found = [row for row in rows(tmp_path) if row["system"] == "notier"]
    times = {row["override"]: row["metrics"].get("runtime_s") for row in found}
    assert times["half-work"] == pytest.approx(0.5 * times["as-is"], rel=0.01)
    assert times["far"] > 1.5 * times["as-is"]
    assert "override carried: there is no sim.carry.scale" in one(found, override="carried")["error"]


def test_the_config_of_a_campaign_that_found_nothing_is_the_default(tmp_path: Path) -> None:
    tuned = tiertune("tune", write_small(tmp_path), "--results", tmp_path, "--name", "found", "--json")
    (cell,) = json.loads(tuned.stdout)["cells"]
    assert cell["effect"]["ratio"] < 1.0
    entry = "configs: [{name: tuned, campaign: found}]\nworkloads"
    text = SWEEP[: SWEEP.index("configs")] + entry + SWEEP[SWEEP.index("workloads") + len("workloads") :]
    sweep(write_sweep(tmp_path, text), tmp_path, "--seeds", "1")
    assert one(rows(tmp_path), system="hemem", config="tuned")["knobs"] == engine.check_config("hemem", {})


def test_a_refused_override_is_bad_input(tmp_path: Path) -> None:
    text = SWEEP + 'overrides: [{name: odd, machine: {"tiers[0].read_gbps": fast}}]\n'
    said = tiertune("sweep", write_sweep(tmp_path, text), "--results", tmp_path)
    assert said.exit_code == 2
    assert said.stderr.startswith(
        "tiertune: override odd of machine skx-numa: tiers[0].read_gbps: 'fast' is not a number"
    )


def test_configs_from_a_campaign_and_their_ablation(tmp_path: Path) -> None:
    campaign = write_small(tmp_path, ratio=GAINFUL)
    tuned = tiertune("tune", campaign, "--results", tmp_path, "--name", "found", "--json")
    assert tuned.exit_code == 0, tuned.stderr
    winner = json.loads(tuned.stdout)["cells"][0]["config"]
    entry = "configs:\n  - {name: default}\n  - {name: tuned, campaign: found, ablate: true}\nworkloads"
    text = SWEEP[: SWEEP.index("configs")] + entry + SWEEP[SWEEP.index("workloads") + len("workloads") :]
    sweep(write_sweep(tmp_path, text), tmp_path, "--seeds", "1")
    found = rows(tmp_path)
    knobs = one(found, system="hemem", config="tuned")["knobs"]
    defaults = engine.check_config("hemem", {})
    assert {name: knobs[name] for name in winner} == winner
    changed = [name for name, value in knobs.items() if value != defaults[name]]
    assert changed
    for name in changed:
        ablated = one(found, config=f"tuned-without-{name.replace('_', '-')}")
        assert ablated["knobs"] == {**knobs, name: defaults[name]}
    row = one(found, system="notier", config="tuned")
    assert (row["status"], row["error"]) == ("not-applicable", "campaign found did not tune notier")
    missing = tiertune("sweep", write_sweep(tmp_path, text.replace("campaign: found", "campaign: fund")),
                       "--results", tmp_path)  # fmt: skip
    assert missing.exit_code == 2
    assert "did you mean 'found'?" in missing.stderr


def test_all_systems_are_those_of_the_registry(tmp_path: Path) -> None:
    text = SWEEP[: SWEEP.index("systems")] + "systems: all\nworkloads" + SWEEP[SWEEP.index("workloads") + 9 :]
    plans = rows_of(load_sweep(str(write_sweep(tmp_path, text))), tmp_path)
    assert {plan.at.system for plan in plans} == {info.name for info in engine.systems()}
    for plan in plans:
        assert plan.at.page_bytes == engine.system(plan.at.system).page_bytes[0]


def test_a_dry_run_lists_rows_and_does_nothing(tmp_path: Path) -> None:
    path = write_sweep(tmp_path)
    results = tmp_path / "results"
    said = sweep(path, results, "--dry-run")
    assert said.stdout.count("to measure") == 6
    assert "6 rows; 8 runs" in said.stdout
    assert not results.exists()
    sweep(path, results, "--seeds", "1")
    listed = json.loads(sweep(path, results, "--dry-run", "--json").stdout)
    assert [row["state"] for row in listed["rows"]] == ["cached", "to measure"] * 3
    assert (listed["runs"], listed["cached"]) == (8, 4)


def test_everything_that_matters_is_in_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def keys(text: str) -> list[str]:
        plans = rows_of(load_sweep(str(write_sweep(tmp_path, text))), tmp_path)
        return [plan.run.key for plan in plans if plan.run is not None]

    before = keys(SWEEP)
    assert len(set(before)) == 6
    assert keys(SWEEP.replace("name: small", "name: other")) == before
    for old, new in (
        ("skx-numa", "icx-pmem"),
        ('"1:4"', '"1:3"'),
        ("ratios: [", "contention: [{name: a, traffic: [{tier: 0, read_gbps: 1}]}]\nratios: ["),
        ("ratios: [", "page_sizes: [4KiB]\nratios: ["),
        ("ratios: [", "noise: paired\nratios: ["),
        ("ratios: [", "mode: reference\nratios: ["),
        ("ratios: [", 'overrides: [{name: a, workload: {"sim.streams.objects[0].bytes": 1GiB}}]\nratios: ['),
    ):
        changed = keys(SWEEP.replace(old, new))
        assert len(set(changed)) == 6, new
        assert not set(changed) & set(before), new
    assert len(set(keys(SWEEP.replace("sampling_period: 1000", "sampling_period: 999"))) & set(before)) == 4
    monkeypatch.setattr("tiertune.engine.sources", lambda: "another engine")
    assert not set(keys(SWEEP)) & set(before)


def test_the_baseline_is_the_same_for_every_ratio(tmp_path: Path) -> None:
    """Slowdowns are against a run with no fast memory granted: `all-fast` does not ask for any."""
    text = SWEEP.replace("systems: [hemem, notier]", "systems: [hemem, notier, all-fast]")
    sweep(write_sweep(tmp_path, text.replace('ratios: ["1:4"]', 'ratios: ["1:4", "3:1"]')), tmp_path)
    found = [row for row in rows(tmp_path) if row["system"] == "all-fast"]
    assert [row["derived"]["slowdown"] for row in found] == [1.0] * 4


def test_a_file_that_is_no_cache_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "sweeps").mkdir()
    (tmp_path / "sweeps" / "cache.sqlite").write_text("not a database, but long enough to look like one" * 40)
    said = tiertune("sweep", write_sweep(tmp_path), "--results", tmp_path)
    assert said.exit_code == 2
    assert "not a usable cache of sweeps" in said.stderr


def test_pages_of_a_damaged_cache_are_said(tmp_path: Path) -> None:
    path, file = write_sweep(tmp_path), tmp_path / "sweeps" / "cache.sqlite"
    sweep(path, tmp_path)
    file.write_bytes(file.read_bytes()[:4096] + b"\xaa" * (file.stat().st_size - 4096))
    for options in ((), ("--dry-run",)):
        said = tiertune("sweep", path, "--results", tmp_path, *options)
        assert said.exit_code == 2, said.output
        assert "not a usable cache of sweeps (database disk image is malformed)" in said.stderr


def test_a_cache_that_is_held_is_not_to_be_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_sweep(tmp_path)
    sweep(path, tmp_path)
    monkeypatch.setattr(cache, "WAIT_S", 0.1)
    other = sqlite3.connect(tmp_path / "sweeps" / "cache.sqlite", isolation_level=None)
    other.execute("begin immediate")
    said = tiertune("sweep", path, "--results", tmp_path, "--fresh")
    other.close()
    assert said.exit_code == 2
    assert "another process has held it for 0.1 s" in said.stderr


def test_a_measured_profile_is_measured_again_when_its_content_changes(tmp_path: Path) -> None:
    text = SWEEP.replace("./small-workload.yaml", "./measured.yaml").replace(
        "configs:\n  - {name: default}\n"
        "  - {name: eager, systems: [hemem], knobs: {sampling_period: 1000}}\n",
        "",
    )
    (tmp_path / "measured.yaml").write_text(
        "name: measured\nversion: 1\ndescription: a profile of any content\nsource: a real process\n"
        "metric: {name: runtime_s, direction: minimize}\nthreads: 2\nsim:\n  profile: {file: kv.parquet}\n"
    )
    path, runtimes = write_sweep(tmp_path, text), []
    for share in (0.5, 0.2):
        write_profile(tmp_path / "kv.parquet", *profile_of(seen(), stalled_share=share))
        sweep(path, tmp_path)
        runtimes.append(one(rows(tmp_path), system="notier", seed=1)["metrics"]["runtime_s"])
    assert runtimes[0] != runtimes[1]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--by", "part,system,config,workload,override,machine,fast,threads,seed"), "9 names; the most"),
        (("--show", ",".join(["slowdown"] * 21)), "21 names; the most that a table takes is 20"),
        (("--across", "workload,fast"), "--across workload,fast: columns are of one coordinate"),
    ],
)
def test_a_table_of_too_much_is_bad_input(tmp_path: Path, options: tuple[str, str], said: str) -> None:
    ran = tiertune("sweep", write_sweep(tmp_path), "--results", tmp_path, *options)
    assert ran.exit_code == 2, ran.output
    assert said in ran.stderr


def test_a_dry_run_counts_what_its_options_would_measure(tmp_path: Path) -> None:
    path = write_sweep(tmp_path)
    sweep(path, tmp_path)

    def cached(*options: str) -> int:
        listed = json.loads(sweep(path, tmp_path, "--dry-run", "--json", *options).stdout)
        return int(listed["cached"])

    assert [cached(), cached("--fresh"), cached("--timelines")] == [8, 0, 0]


@pytest.mark.parametrize("name", ["..", ".", "cache.sqlite"])
def test_a_sweep_is_not_called_like_what_is_there(tmp_path: Path, name: str) -> None:
    path = write_sweep(tmp_path, SWEEP.replace("name: small\n", f'name: "{name}"\n'))
    said = tiertune("sweep", path, "--results", tmp_path / "results")
    assert said.exit_code == 2
    assert f"name: '{name}' is " in said.stderr
    assert not (tmp_path / "results").exists()


def test_rows_are_not_compared_with_another_content_of_the_same_name(tmp_path: Path) -> None:
    sizes = "\n".join(
        f"  - {{name: {part}, systems: [{system}], overrides: [{{name: small, workload:"
        f' {{"sim.streams.objects[0].bytes": {size}}}}}]}}'
        for part, system, size in (("a", "notier", "1GiB"), ("b", "hemem", "512MiB"), ("c", "mru", "1GiB"))
    )
    text = SWEEP.replace(SWEEP[SWEEP.index("configs:") : SWEEP.index("workloads:")], "")
    text = text.replace("seeds:", f"parts:\n{sizes}\nseeds:").replace("seeds: [1, 2]", "seeds: [1]")
    sweep(write_sweep(tmp_path, text.replace("[system, config]", "[system]")), tmp_path)
    found = {row["system"]: row for row in rows(tmp_path)}
    assert found["hemem"]["compared_with"] == {"notier": None}
    assert found["mru"]["compared_with"] == {"notier": found["notier"]["id"]}
    page = (tmp_path / "sweeps" / "small" / "report.html").read_text()
    # Nor are they set against each other as if they ran the same.
    assert re.search(r"<th[^>]*>part</th>", page)


def test_a_crash_of_what_slowdowns_are_against_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = engine.run

    def broken(workload: engine.EngineWorkload, request: dict[str, Any]) -> dict[str, Any]:
        if request["system"] == "all-fast" and request["seed"] == 2:
            raise RuntimeError("broken")
        return run(workload, request)

    monkeypatch.setattr(engine, "run", broken)
    said = tiertune("sweep", write_sweep(tmp_path), "--results", tmp_path)
    assert said.exit_code == 1
    error = "no slowdown, as all-fast is crashed: RuntimeError: broken"
    assert f"ok, 3 rows: {error}" in said.stdout
    assert "* not all of these rows have the figure" in said.stdout
    row = one(rows(tmp_path), config="eager", seed=2)
    assert (row["status"], row["error"], "slowdown" in row["derived"]) == ("ok", error, False)


def test_an_ablation_is_not_called_like_a_config(tmp_path: Path) -> None:
    text = SWEEP.replace(
        "knobs: {sampling_period: 1000}}", "knobs: {sampling_period: 1000}, ablate: true}"
    ).replace(
        "  - {name: default}\n",
        "  - {name: default}\n"
        "  - {name: eager-without-sampling-period, systems: [hemem], knobs: {read_hot_threshold: 4}}\n",
    )
    said = tiertune("sweep", write_sweep(tmp_path, text), "--results", tmp_path)
    assert said.exit_code == 2
    assert "two configs of hemem are called eager-without-sampling-period" in said.stderr


def test_a_figure_that_no_row_has_is_said(tmp_path: Path) -> None:
    said = sweep(write_sweep(tmp_path), tmp_path, "--show", "gauge.hot_slow_page,notier.promotions")
    assert "no row has gauge.hot_slow_page; did you mean gauge.hot_slow_pages?" in said.stdout
    assert "no row has notier.promotions\n" in said.stdout


def test_a_matrix_from_python_is_of_what_python_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_sweep(tmp_path)
    matrix: dict[str, Any] = {
        "systems": ("notier",),
        "workloads": [tmp_path / "small-workload.yaml"],
        "machines": ["skx-numa"],
        "ratios": ["1:4"],
        "seeds": range(1, 3),
    }
    run = engine.run

    def broken(workload: engine.EngineWorkload, request: dict[str, Any]) -> dict[str, Any]:
        if request["seed"] == 2 and request["system"] == "notier":
            raise RuntimeError("broken")
        return run(workload, request)

    monkeypatch.setattr(engine, "run", broken)
    found = tiertune_api.sweep(matrix, results=tmp_path)
    assert list(found.rows["seed"]) == [1, 2]
    assert list(found.groups["seeds"]) == [1], "the medians are of one"
    with pytest.raises(InputError) as refused:
        tiertune_api.sweep({**matrix, "systems": ["notiers"]}, results=tmp_path)
    assert refused.value.sentences == (
        "sweep: systems[0]: there is no system 'notiers'; did you mean 'notier'?",
    )
    with pytest.raises(InputError, match=r"sweep: 1j is nothing that a file holds"):
        tiertune_api.sweep({**matrix, "seeds": 1j}, results=tmp_path)
