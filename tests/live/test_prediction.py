"""What is said of a simulator whose configurations ran live, too."""

from __future__ import annotations

import json
import math
import os
import random
import statistics
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cli.small import WORKLOAD, tiertune
from tests.configs.corpus import ROOT
from tests.live.test_host_backend import TIERD
from tests.tuner.toy import SCENARIO
from tiertune.tuner.journal import Row
from tiertune.tuner.live.prediction import Pair, prediction
from tiertune.tuner.transfer.context import complete
from tiertune.tuner.trial import Config, Origin, Status, Trial

TRIAL = Trial("toy", "cell", 0, SCENARIO, "hemem", {}, 1)
KNOB = "read_hot_threshold"
DEFAULT = complete("hemem", {})


def rows(runtimes_s: dict[int, list[float]]) -> list[Row]:
    """Search rows of configurations by how far a knob is above its default; that of 0 is the default."""
    found: list[Row] = []
    for above, runs in runtimes_s.items():
        for runtime_s in runs:
            found.append(row(above, runtime_s, seed=len(found), number=len(found)))
    return found


def row(above: int, runtime_s: float, **trial: Any) -> Row:
    """One row; in a search a config has the searched knobs alone, in judgement the default has all."""
    whole = above == 0 and trial.get("purpose", "search") != "search"
    config: Config = DEFAULT if whole else {KNOB: int(DEFAULT[KNOB]) + above}
    origin: Origin = "model" if above else "default"
    made = replace(TRIAL, config=config, origin=origin, **trial)
    cost = math.log(runtime_s) if runtime_s else None
    return Row(made.number, made, Status.OK if runtime_s else Status.CRASHED, cost=cost)


def above(pair: Pair) -> int:
    return int(pair.config[KNOB]) - int(DEFAULT[KNOB])


def test_a_perfect_simulator() -> None:
    told = {knob: [10.0 - knob] for knob in range(7)}
    found = prediction("cell", rows(told), rows({knob: [2 * run[0]] for knob, run in told.items()}))
    assert found.rank == pytest.approx(1.0)
    assert found.worst_error == pytest.approx(0.0, abs=1e-12)
    assert [above(pair) for pair in found.pairs] == [6, 5, 4, 3, 2, 1]
    assert found.pairs[0].predicted == pytest.approx(2.5)


def test_gains_that_were_promised_and_did_not_come() -> None:
    simulated = rows({0: [10.0], 1: [5.0], 2: [8.0]})
    live = rows({0: [10.0, 10.0], 1: [10.0], 2: [8.0, 8.0], 3: [1.0]})
    found = prediction("cell", simulated, live)
    assert [(above(pair), pair.live_runs) for pair in found.pairs] == [(1, 1), (2, 2)]
    assert [pair.error for pair in found.pairs] == pytest.approx([1.0, 0.0])
    assert found.rank is None
    assert [found.median_error, found.worst_error] == pytest.approx([0.5, 1.0])
    assert "too few for a correlation" in found.sentence()


def test_the_default_is_no_configuration_and_all_its_runs_count() -> None:
    """A perfect simulator, whose first trial, the default, was 5 % slow in simulation and 5 % fast live."""

    def campaign(luck: float) -> list[Row]:
        found = rows({0: [10.0 * luck], **{k: [10.0 - k] for k in range(1, 6)}})
        # Blocks of which one is slower than the others: the default and the best three, then the best one.
        blocks = [("selection", (0, 5, 4, 3))] * 4 + [("validation", (0, 5))] * 10
        for block, (purpose, members) in enumerate(blocks):
            drift, block_seed = 1.0 + 0.1 * (block % 3), 1000 + block
            found += [row(k, (10.0 - k) * drift, purpose=purpose, seed=block_seed) for k in members]
        return found

    found = prediction("cell", campaign(1.05), campaign(0.95))
    assert [(above(pair), pair.live_runs) for pair in found.pairs] == [
        (5, 14),
        (4, 4),
        (3, 4),
        (2, 1),
        (1, 1),
    ]
    # Those that ran beside the default are set against it there, the others against all of its runs.
    assert [pair.error for pair in found.pairs[:3]] == pytest.approx([0.0] * 3, abs=1e-12)
    assert found.pairs[0].predicted == pytest.approx(2.0)
    assert [pair.error for pair in found.pairs[3:]] == pytest.approx(
        [math.log(1.05 / 0.95) / 15] * 2, rel=0.01
    )


def test_what_failed_says_nothing() -> None:
    found = prediction("cell", rows({0: [10.0], 1: [5.0]}), rows({0: [10.0], 1: [0.0]}))
    assert found.pairs == []
    assert "nothing is known" in found.sentence()


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    """Ranks of correlated normal numbers; the correlation of ranks of 0.8 is 6/pi asin(0.4)."""
    rng = random.Random(4)
    truth = 6 / math.pi * math.asin(0.4)
    held = []
    for _ in range(400):
        shared = [(rng.gauss(0, 1), rng.gauss(0, 1)) for _ in range(12)]
        simulated = {0: [1.0], **{k: [math.exp(a)] for k, (a, _) in enumerate(shared, 1)}}
        live = {0: [1.0], **{k: [math.exp(0.8 * a + 0.6 * b)] for k, (a, b) in enumerate(shared, 1)}}
        found = prediction("cell", rows(simulated), rows(live))
        assert found.low is not None
        assert found.high is not None
        held.append(found.low <= truth <= found.high)
    assert statistics.fmean(held) == pytest.approx(0.95, abs=0.035)


PROGRAM = "#!/bin/sh\necho took $((10 + THRESHOLD)).0 s\n"


def test_the_command_searches_simulated_then_live(tmp_path: Path) -> None:
    """On a host that is made up: two nodes, a daemon that hands a knob to the program."""
    tierd = TIERD.replace(
        "subprocess.run(command)", "subprocess.run(command, env={'THRESHOLD': str(knobs[KNOB])})"
    )
    # Without site packages it starts in no time.
    head = f"#!{sys.executable} -SE\nKNOB = 'read_hot_threshold'\n"
    for name, text in {"program": PROGRAM, "tierd": head + tierd}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    host = "host:\n  command: [PROGRAM]\n  footprint: 1GiB\n  metrics: {runtime_s: 'took ([\\d.]+) s'}\n"
    (tmp_path / "small.yaml").write_text(WORKLOAD + host.replace("PROGRAM", str(tmp_path / "program")))
    (tmp_path / "space.yaml").write_text(
        "name: threshold\nsystem: hemem\ndescription: one knob\n"
        "knobs:\n  read_hot_threshold: {min: 1, max: 30}\n"
    )
    (tmp_path / "mine.yaml").write_text(CAMPAIGN_TEXT)
    patch = f"""
from tests.live.test_fitness import FIT
from tiertune.tuner.live import backend
backend.look_here = lambda: (FIT, 0.0)
found = backend.program_here
backend.program_here = lambda name: {str(tmp_path / "tierd")!r} if name == "tierd" else found(name)
from tiertune.tuner.cli import main
main()
"""
    command = [sys.executable, "-c", patch, "tune", "mine.yaml", "--here", "0,1", "--then-host", "12"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "engine" / "python"), str(ROOT)])}
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads((tmp_path / "results/mine-live/prediction.json").read_text())["cells"]
    assert len(told) == 1
    assert len(told[0]["pairs"]) >= 5
    assert -1.0 <= told[0]["low"] <= told[0]["rank"] <= told[0]["high"] <= 1.0
    assert "ranks agree with" in done.stdout
    assert "gains were foretold with a median error of" in done.stdout
    again = subprocess.run([*command, "--json"], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    document = json.loads(again.stdout)
    assert {half: one.get("campaign") for half, one in document.items()} == {
        "simulated": "mine",
        "live": "mine-live",
        "prediction": None,
    }
    assert document["prediction"] == {"cells": told, "files": ["results/mine-live/prediction.json"]}


def test_a_host_that_is_not_in_order_is_told_before_the_simulation(tmp_path: Path) -> None:
    """Which may take hours."""
    host = "host:\n  command: [/bin/true]\n  footprint: 1GiB\n  metrics: {runtime_s: wall}\n"
    (tmp_path / "small.yaml").write_text(WORKLOAD + host)
    (tmp_path / "space.yaml").write_text(
        "name: mine\ndescription: x\nsystem: hemem\nknobs:\n  read_hot_threshold: {min: 1, max: 30}\n"
    )
    (tmp_path / "mine.yaml").write_text(CAMPAIGN_TEXT)
    results = tmp_path / "results"
    done = tiertune(
        "tune", tmp_path / "mine.yaml", "--here", "7,8", "--then-host", "12", "--results", results
    )
    assert done.exit_code == 3, done.output
    assert "memory node 7 has no memory" in " ".join(done.output.split())
    assert not list(results.glob("mine*/journal.sqlite")), "no trial was simulated"


CAMPAIGN_TEXT = """\
name: mine
description: a campaign for a test
seed: 3
scenarios:
  - {workload: ./small.yaml, machine: skx-numa, ratio: "1:8", page_size: 2MiB}
systems:
  - {system: hemem, space: ./space.yaml}
budget: {trials: 14, initial: 14, random_share: 0.0}
optimiser: {name: random}
validation: {seeds: 5}
tracking: {mlflow: false}
workers: 1
"""
