"""`tiertune calibrate`: what is put into measurements comes out of the fit, and this host can be measured."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import Result

from tests.calibration.synthetic import (
    FILL_BUFFERS,
    HIT_NS,
    LOCKED_OVERLAP,
    MOVE_NS,
    RANDOM_OVERLAP,
    UPDATE_OVERLAP,
    measurements,
    node_samples,
    truth,
)
from tests.cli.small import tiertune as command
from tests.cli.small import write_small
from tiertune.files import InputError
from tiertune.machines.definition import load_machine
from tiertune.tuner.backend import HostUnfit
from tiertune.tuner.calibration.curve import fit_curve, multiplier, with_tail
from tiertune.tuner.calibration.fit import fit_node
from tiertune.tuner.calibration.imported import imported_tier
from tiertune.tuner.calibration.machine_file import DECLARED_MOVE_NS, calibrated
from tiertune.tuner.calibration.measuring import SHORT, HostCpu, Node, find_tierload, run_tierload
from tiertune.tuner.calibration.measuring import measurements as plan
from tiertune.tuner.calibration.published import Point, read_points, rising_part

HERE = Path(__file__).parent


def tiertune(*arguments: str | Path, code: int = 0) -> Result:
    """The command, which has to end with this code."""
    ran = command(*arguments)
    assert ran.exit_code == code, ran.output
    return ran


ROOT = HERE.parents[1]


def test_a_known_host_is_recovered_to_2_percent() -> None:
    tier = truth()
    found = calibrated("known", measurements(tier), load_machine("skx-cxl-emul"), load_machine("skx-numa"))
    machine, fit = found.machine, found.fits["node0"]
    first = machine.tiers[0]
    assert first.latency_ns == pytest.approx(tier.latency_ns, rel=0.02)
    assert first.read_gbps == pytest.approx(tier.read_gbps, rel=0.02)
    assert first.write_gbps == pytest.approx(tier.write_gbps, rel=0.02)
    assert not first.duplex
    # Past that latency doubles within two per cent of bandwidth, which is how well the peak is known.
    for place in np.linspace(0.0, 0.95, 50):
        assert multiplier(first.curve, place) == pytest.approx(multiplier(tier.curve, place), rel=0.02), place
    assert machine.fill_buffers == pytest.approx(FILL_BUFFERS, rel=0.02)
    assert machine.llc_hit_ns == pytest.approx(HIT_NS, rel=0.02)
    assert machine.parallelism is not None
    assert machine.parallelism.random == pytest.approx(RANDOM_OVERLAP, rel=0.02)
    assert machine.parallelism.update == pytest.approx(UPDATE_OVERLAP, rel=0.02)
    assert machine.parallelism.locked == pytest.approx(LOCKED_OVERLAP, rel=0.02)
    assert machine.migration_cost is None, "one node cannot tell"
    assert fit.curve.r_squared > 0.98


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    tier = truth()
    fits = [fit_node(node_samples(tier, 0.01, seed=seed), False) for seed in range(12)]
    for name, value in (("latency_ns", tier.latency_ns), ("read_gbps", tier.read_gbps)):
        held = sum(fit.figures[name].low < value < fit.figures[name].high for fit in fits)
        # 11.4 of 12 would be 95 %; resampling twelve rounds makes intervals a little too narrow.
        assert held >= 9, name


def test_two_nodes_make_two_tiers_and_moves_are_calibrated() -> None:
    tiers = load_machine("skx-numa").tiers
    machine = calibrated("two", measurements(*tiers), None, load_machine("skx-numa")).machine
    assert [tier.name for tier in machine.tiers] == ["node0", "node1"]
    assert machine.tiers[1].duplex
    assert machine.tiers[1].read_gbps == pytest.approx(tiers[1].read_gbps, rel=0.02)
    assert machine.migration_cost == pytest.approx(MOVE_NS / DECLARED_MOVE_NS, rel=0.02)


def test_wider_noise_makes_wider_intervals() -> None:
    below, tail = load_machine("skx-cxl-emul"), load_machine("skx-numa")

    def width(noise: float) -> float:
        figure = (
            calibrated("n", measurements(truth(), noise=noise), below, tail)
            .fits["node0"]
            .figures["latency_ns"]
        )
        return figure.high - figure.low

    assert width(0.05) > 2 * width(0.01)


def test_memory_that_gets_slower_meanwhile_is_not_taken_for_load() -> None:
    tier = truth()
    below, tail = load_machine("skx-cxl-emul"), load_machine("skx-numa")
    fit = calibrated("drift", measurements(tier, drift=0.2), below, tail).fits["node0"]
    # Past that latency doubles within two per cent of bandwidth, which is how well the peak is known.
    for place in np.linspace(0.0, 0.95, 50):
        assert fit.curve.multiplier(place) == pytest.approx(multiplier(tier.curve, place), rel=0.03), place
    latency = fit.figures["latency_ns"]
    assert latency.low < tier.latency_ns < latency.high
    still = calibrated("still", measurements(tier), below, tail).fits["node0"].figures["latency_ns"]
    assert latency.high - latency.low > 3 * (still.high - still.low), "the interval has the drift"


def test_a_host_that_is_too_busy_is_refused() -> None:
    measured = measurements(truth())
    for sample in measured["nodes"][0]["samples"]:
        if sample["measure"] == "stream":
            sample["undisturbed"] = 0
    with pytest.raises(HostUnfit, match=r"undisturbed samples of .* and of reads alone"):
        calibrated("busy", measured, load_machine("skx-cxl-emul"), load_machine("skx-numa"))


def _busy(**where: object) -> dict[str, object]:
    """Measurements of a host that was too busy for samples of which this is so."""
    measured = measurements(truth())
    for sample in measured["nodes"][0]["samples"]:
        if all(sample.get(key) == value for key, value in where.items()):
            sample["undisturbed"] = 0
    return measured


@pytest.mark.parametrize(
    ("where", "kind"),
    [
        ({"measure": "stream", "threads": 8}, "reads alone and of reads and writes"),
        ({"measure": "stream", "threads": 1}, "one thread's streaming"),
        ({"measure": "loaded", "threads": 1}, "loaded latency"),
        ({"measure": "loaded", "threads": 0, "label": None}, "idle latency"),
    ],
)
def test_each_kind_of_sample_is_needed(where: dict[str, object], kind: str) -> None:
    """Without those of all threads, what one thread streams was the peak of the memory."""
    with pytest.raises(HostUnfit, match=f"too few undisturbed samples of {kind}, 3 rounds are needed"):
        calibrated("busy", _busy(**where), load_machine("skx-cxl-emul"), load_machine("skx-numa"))


def test_figures_say_of_how_many_rounds_they_are() -> None:
    measured = measurements(truth())
    for sample in measured["nodes"][0]["samples"]:
        if sample["measure"] == "stream" and sample["round"] > 4:
            sample["undisturbed"] = 0
    fit = calibrated("few", measured, load_machine("skx-cxl-emul"), load_machine("skx-numa")).fits["node0"]
    rounds = {name: figure.rounds for name, figure in fit.figures.items()}
    assert (rounds["latency_ns"], rounds["read_gbps"], rounds["fill_buffers"]) == (12, 5, 5)


def test_a_single_processor_measures_no_curve_and_says_so() -> None:
    measured = measurements(truth())
    node, cpu = measured["nodes"][0], measured["cpu"]
    node["processors"] = cpu["cores"] = 1
    node["samples"] = [
        one for one in node["samples"] if one["measure"] not in ("loaded", "stream") or one["threads"] != 8
    ]
    node["samples"] = [one for one in node["samples"] if one["measure"] != "loaded" or not one["threads"]]
    found = calibrated("one", measured, load_machine("skx-cxl-emul"), load_machine("skx-numa"))
    said = found.machine.tiers[0].sources["curve"]
    assert said.startswith("not measured but for idle latency")
    assert "R2" not in said


def test_a_node_is_measured_by_the_processors_it_has() -> None:
    cpu = HostCpu("Example", 8, 2.2, 13 << 20, 1 << 20)
    sockets = [Node(number, 1 << 34, tuple(range(4 * number, 4 * number + 4))) for number in (0, 1)]
    threads = [
        entry.arguments[entry.arguments.index("--threads") + 1]
        for entry in plan(cpu, sockets, SHORT)
        if entry.arguments[0] in ("loaded", "stream") and "cache" not in entry.arguments
    ]
    assert threads == ["3", "1,4", "3", "1,4"], "no processor streams for two threads"
    measured = measurements(*load_machine("skx-numa").tiers)
    measured["cpu"]["cores"] = 16
    assert calibrated("two", measured, None, load_machine("skx-numa")).machine.cores == 8


def test_a_slow_tier_is_not_named_where_there_are_two_nodes() -> None:
    tail = load_machine("skx-numa")
    with pytest.raises(InputError, match="--slow-from skx-numa: the host has 2 memory nodes"):
        calibrated("two", measurements(*tail.tiers), tail, tail)


def test_a_tail_joins_where_the_measured_curve_ends() -> None:
    tail = truth().curve
    points = with_tail([(0.0, 1.0), (0.5, 2.0)], tail)
    assert points[:2] == ((0.0, 1.0), (0.5, 2.0))
    for place, multiple in points[2:]:
        assert multiple == pytest.approx(2.0 * multiplier(tail, place) / multiplier(tail, 0.5))
    assert points[-1][0] == 1.0


def test_curves_never_fall() -> None:
    generator = np.random.default_rng(3)
    used = generator.uniform(0, 1, 300)
    fit = fit_curve(used, 100.0 * np.exp(generator.normal(0.0, 0.2, 300)))
    multiples = [multiple for _, multiple in fit.points]
    assert multiples == sorted(multiples)
    assert multiples[0] == 1.0


@pytest.mark.parametrize("path", sorted((HERE / "curves" / "bad").glob("*.csv")), ids=lambda path: path.stem)
def test_bad_curves_are_refused_with_a_line(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(HERE / "curves")
    with pytest.raises(InputError) as refused:
        read_points(path.relative_to(HERE / "curves"))
    assert "\n".join(refused.value.sentences) + "\n" == path.with_suffix(".expected").read_text()


def test_an_imported_curve_is_that_of_its_file() -> None:
    points = read_points(HERE / "curves" / "good" / "reads.csv")
    base = load_machine("skx-numa").tiers[0]
    found = imported_tier(base, Path("reads.csv"), points)
    assert found.tier.read_gbps == pytest.approx(48.02)
    assert found.tier.write_gbps / found.tier.read_gbps == pytest.approx(
        base.write_gbps / base.read_gbps, rel=1e-3
    )
    for point in points:
        latency = found.curve.latency_ns * found.curve.multiplier(point.bandwidth_gbps / 48.02)
        assert latency == pytest.approx(point.latency_ns, rel=0.01)


def test_single_lines_keep_their_share_of_an_imported_peak() -> None:
    points = read_points(HERE / "curves" / "good" / "reads.csv")
    base = load_machine("icx-upi").tiers[0]
    found = imported_tier(base, Path("reads.csv"), points).tier
    assert found.random_read_gbps == pytest.approx(48.02 * 0.885, rel=1e-3)
    assert found.random_write_gbps == pytest.approx(0.97 * found.write_gbps, rel=1e-3)


@pytest.mark.parametrize(
    ("points", "sentence"),
    [
        ([(10, 100), (20, 90), (30, 80), (40, 70)], "3 of 4 points have less bandwidth and more latency"),
        ([(0, 70), (0, 80), (0, 90), (0, 99)], "no point of reads has a bandwidth_gbps above 0"),
        ([(1, 80), (11, 70), (20, 80), (21, 99_000)], "the fitted curve["),
    ],
)
def test_points_that_are_no_curve_are_refused(points: list[tuple[float, float]], sentence: str) -> None:
    base = load_machine("skx-numa").tiers[0]
    with pytest.raises(InputError) as refused:
        imported_tier(base, Path("c.csv"), [Point(*point, 1.0) for point in points])
    assert str(refused.value).startswith(f"c.csv: {sentence}")


def test_latencies_that_scatter_without_load_are_not_past_saturation() -> None:
    points = [
        (1.0, 80.4),
        (5.0, 80.1),
        (10.0, 80.2),
        (15.0, 80.0),
        (20.0, 85.0),
        (25.0, 100.0),
        (30.0, 150.0),
    ]
    base = load_machine("skx-numa").tiers[0]
    found = imported_tier(base, Path("c.csv"), [Point(*point, 1.0) for point in points])
    assert found.left_out == 0
    assert found.curve.latency_ns == pytest.approx(80.2, abs=0.1)
    assert "not measured below" not in found.tier.sources["curve"]
    loaded = imported_tier(base, Path("c.csv"), [Point(*point, 1.0) for point in points[3:]])
    assert "not measured below 50% of the peak" in loaded.tier.sources["curve"]


def test_points_past_saturation_are_left_out_of_each_mix() -> None:
    points = read_points(HERE / "curves" / "good" / "mixes.csv")
    kept = rising_part(points)
    assert [point for point in points if point not in kept] == [Point(29.0, 260.0, 1.0)]
    found = imported_tier(load_machine("skx-numa").tiers[0], Path("mixes.csv"), points)
    assert (found.tier.read_gbps, found.left_out) == (30.0, 1)
    # 12 reads of 30 leave 0.6 of the bus to 12 writes.
    assert found.tier.write_gbps == pytest.approx(20.0)


@pytest.fixture(scope="module")
def tierload() -> Path:
    """The command that measures, built where it is not there yet."""
    try:
        return find_tierload()
    except HostUnfit:
        manifest = ROOT / "engine" / "Cargo.toml"
        subprocess.run(
            ["cargo", "build", "--manifest-path", manifest, "-p", "tierload", "--locked"], check=True
        )
        return find_tierload()


@pytest.mark.long
def test_this_host_is_measured_and_a_run_uses_the_machine(tmp_path: Path, tierload: Path) -> None:
    arguments = ("calibrate", "here", "--slow-from", "clx-optane", "--tierload", tierload)
    out = tmp_path / "here.yaml"
    ran = tiertune(*arguments, "--short", "--json", "--out", out, "--results", tmp_path)
    found = json.loads(ran.stdout)
    assert found["files"] == [str(out), str(tmp_path / "calibrations" / "here.json")]
    machine = load_machine(str(out))
    first = machine.tiers[0]
    # Loose bounds of what memory and caches are, on any host of these years.
    assert 40 < first.latency_ns < 1000
    assert 1 < first.read_gbps < 2000
    assert machine.llc_hit_ns < first.latency_ns
    assert machine.parallelism is not None
    assert machine.parallelism.random is not None
    assert 2 < machine.parallelism.random < 40
    # The same measurements give the same file.
    again = tmp_path / "again.yaml"
    stored = tmp_path / "calibrations" / "here.json"
    tiertune("calibrate", "here", "--slow-from", "clx-optane", "--measurements", stored, "--out", again)
    assert again.read_text() == out.read_text()
    write_small(tmp_path)
    scenario = ("-w", tmp_path / "small-workload.yaml", "-m", out, "--ratio", "1:1", "--threads", "4")
    too_many = tiertune("run", "notier", *scenario, code=2)
    assert "cores" in too_many.stderr


def test_measurements_that_cannot_be_made_are_answered_with_a_sentence(tierload: Path) -> None:
    with pytest.raises(HostUnfit, match="node"):
        run_tierload(tierload, ["loaded", "--node", "999", "--samples", "1"], ())
    with pytest.raises(HostUnfit, match="--samples is many, it must be 1 to 100000 samples"):
        run_tierload(tierload, ["stream", "--samples", "many"], ())


def test_dependent_reads_are_slower_than_independent_ones(tierload: Path) -> None:
    samples = run_tierload(tierload, ["updates", "--samples", "3", "--window-s", "0.03"], ())
    times = {
        kind: min(s["ns_per_access"] for s in samples if s["kind"] == kind) for kind in ("chase", "read")
    }
    assert times["chase"] > 2 * times["read"]


SAYS_WHERE = f"""#!{sys.executable}
import json, os
print(json.dumps({{"event": "sample", "processors": sorted(os.sched_getaffinity(0))}}))
"""


def test_it_runs_on_the_processors_that_were_named_and_nothing_is_left_changed(tmp_path: Path) -> None:
    program = tmp_path / "tierload"
    program.write_text(SAYS_WHERE)
    program.chmod(0o755)
    before = os.sched_getaffinity(0)
    first = min(before)
    for processors, wanted in (((first,), {first}), ((), before)):
        (sample,) = run_tierload(program, ["stream"], processors)
        assert set(sample["processors"]) == wanted
        assert os.sched_getaffinity(0) == before
    with pytest.raises(HostUnfit, match="none of the processors 4095 may be used here"):
        run_tierload(program, ["stream"], (4095,))


def test_one_node_needs_a_slow_tier_and_files_stay(tmp_path: Path) -> None:
    stored = tmp_path / "measured.json"
    stored.write_text(json.dumps(measurements(truth())))
    common = ("calibrate", "one", "--measurements", stored, "--out", tmp_path / "one.yaml")
    refused = tiertune(*common, code=3)
    assert "--slow-from" in refused.stderr
    assert not (tmp_path / "one.yaml").exists()
    tiertune(*common, "--slow-from", "skx-cxl-emul")
    written = (tmp_path / "one.yaml").read_text()
    assert "is there already" in tiertune(*common, "--slow-from", "skx-cxl-emul", code=2).stderr
    assert (tmp_path / "one.yaml").read_text() == written
    (tmp_path / "other.json").write_text("{}")
    other = ("calibrate", "one", "--measurements", tmp_path / "other.json", "--slow-from", "spr-cxl")
    assert "'schema' must be 1" in tiertune(*other, "--out", tmp_path / "new.yaml", code=2).stderr


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda read: read.pop("cpu"), "cpu is missing: the processor"),
        (lambda read: read.update(nodes=[]), "nodes has 0 entries; it takes at least 1"),
        (
            lambda read: read["nodes"][0]["samples"][0].pop("latency_ns"),
            "nodes[0].samples[0].latency_ns is missing, though the sample has undisturbed slots",
        ),
        (
            lambda read: read["nodes"][0]["samples"][1].update(measure="lodaed"),
            "'lodaed' is not one of loaded, moves, stream, updates; did you mean 'loaded'?",
        ),
    ],
    ids=["cpu", "nodes", "latency", "measure"],
)
def test_damaged_measurements_are_a_mistake_in_the_file(
    damage: Callable[[dict[str, Any]], object], said: str, tmp_path: Path
) -> None:
    read = json.loads(json.dumps(measurements(truth())))
    damage(read)
    stored = tmp_path / "measured.json"
    stored.write_text(json.dumps(read))
    refused = tiertune("calibrate", "one", "--measurements", stored, "--slow-from", "skx-cxl-emul", code=2)
    assert f"{stored}:1: " in refused.stderr
    assert said in refused.stderr


def test_a_curve_is_imported_into_a_machine(tmp_path: Path) -> None:
    out = tmp_path / "mine.yaml"
    curve = HERE / "curves" / "good" / "reads.csv"
    common = ("calibrate", "skx-numa", "--curve", curve, "--out", out)
    tiertune(*common, "--tier", "dram")
    machine, base = load_machine(str(out)), load_machine("skx-numa")
    assert machine.name == "mine"
    assert machine.tiers[1] == base.tiers[1]
    assert machine.tiers[0].read_gbps == pytest.approx(48.02)
    assert "did you mean 'remote'?" in tiertune(*common, "--tier", "remot", "--force", code=2).stderr
    refused = tiertune(*common, "--tier", "remote", "--force", code=2)
    assert "mine: tiers[1].latency_ns: 90 is below the tier before" in refused.stderr
    assert load_machine(str(out)) == machine
