"""`tiertune sensitivity`: every parameter reaches the model, and verdicts follow from what is measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.small import WORKLOAD, tiertune
from tiertune.files import InputError
from tiertune.machines.definition import load_machine
from tiertune.tuner.sensitivity.conclusion import Conclusion, read_conclusion
from tiertune.tuner.sensitivity.parameters import PARAMETERS, changed_machine, samples_of
from tiertune.tuner.sensitivity.picture import tornado
from tiertune.tuner.sensitivity.study import Verdict, judged

SWEEP = """
name: two
systems: [hemem, notier]
configs:
  - {name: default}
  - {name: keen, systems: [hemem], knobs: {read_hot_threshold: 2, sampling_period: 500}}
workloads: [./small-workload.yaml]
machines: [skx-numa]
ratios: ["1:4"]
seeds: [1]
"""


@pytest.mark.parametrize("parameter", PARAMETERS, ids=lambda parameter: parameter.name)
def test_every_parameter_changes_the_machine_and_has_a_source(parameter: object) -> None:
    assert parameter in PARAMETERS
    one = next(known for known in PARAMETERS if known is parameter)
    machine = load_machine("spr-cxl")
    low, high = (changed_machine(machine, {one.name: value}) for value in (one.low, one.high))
    assert low != high
    assert len(one.source.split()) > 5
    assert one.low < one.high
    assert one.at(0.0) == pytest.approx(one.low)
    assert one.at(1.0) == pytest.approx(one.high)


def test_samples_are_both_ends_and_a_latin_hypercube() -> None:
    samples = samples_of(PARAMETERS, 8)
    assert [sample.kind for sample in samples] == [
        "nominal",
        *["low", "high"] * len(PARAMETERS),
        *["together"] * 8,
    ]
    assert samples == samples_of(PARAMETERS, 8)
    for parameter in PARAMETERS:
        # Each eighth of a range is there once.
        values = [sample.values[parameter.name] for sample in samples if sample.kind == "together"]
        ends = [parameter.at(place / 8) for place in range(9)]
        parts = sorted(sum(value >= end for end in ends) for value in values)
        assert parts == list(range(1, 9)), parameter.name


def test_conclusions_are_read() -> None:
    assert read_conclusion("hemem/keen beats notier by 2.5 % on gups") == Conclusion(
        "hemem/keen", "notier", 2.5, "gups"
    )
    assert read_conclusion("a beats b").text == "a beats b"
    for text in ("a beat b", "a beats a", "a beats b by much", ""):
        with pytest.raises(InputError):
            read_conclusion(text)


@pytest.mark.parametrize(
    ("together", "by_pct", "verdict"),
    [
        ([5.0] * 17, 0.0, Verdict.ROBUST),
        ([5.0] * 16 + [-1.0], 0.0, Verdict.MOSTLY),
        ([5.0] * 13 + [-1.0] * 4, 0.0, Verdict.NOT_ROBUST),
        ([5.0] * 17, 5.5, Verdict.NOT_ROBUST),
        ([5.0] * 16 + [None], 0.0, Verdict.NOT_MEASURED),
    ],
)
def test_verdicts(together: list[float | None], by_pct: float, verdict: Verdict) -> None:
    parameters = PARAMETERS[:1]
    samples = samples_of(parameters, len(together))
    study = judged("s", Conclusion("a", "b", by_pct, None), samples, parameters, [5.0, 4.0, 8.0, *together])
    assert study.verdict == verdict
    assert study.swings[0].size() == 4.0
    assert "migration_cost" in tornado(study, "a beats b", by_pct)


def test_a_study_from_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "small-workload.yaml").write_text(WORKLOAD)
    (tmp_path / "two.yaml").write_text(SWEEP)
    common = ("sensitivity", tmp_path / "two.yaml", "--results", tmp_path / "results", "--together", "4")
    ran = tiertune(*common, "--claim", "hemem/keen beats notier", "--json")
    assert ran.exit_code == 0, ran.output
    found = json.loads(ran.stdout)
    (scene,) = found["scenes"]
    assert scene["scene"] == "small"
    assert not scene["errors"]
    assert scene["models"] == 1 + 2 * len(PARAMETERS) + 4
    assert found["verdict"] == scene["verdict"] == "robust"
    swings = {one["parameter"]: one for one in scene["one_at_a_time"]}
    # Dearer moves take from the lead of the system that moves; faults are none of its business.
    assert swings["migration_cost"]["lead_at_low_pct"] > swings["migration_cost"]["lead_at_high_pct"]
    assert swings["hint_fault_ns"]["lead_at_low_pct"] == swings["hint_fault_ns"]["lead_at_high_pct"]
    assert swings["parallelism_random"]["lead_at_low_pct"] != swings["parallelism_random"]["lead_at_high_pct"]
    assert [Path(path).is_file() for path in found["files"]] == [True, True]
    # The other way round nothing holds, and all of it is cached.
    again = tiertune(*common, "--claim", "notier beats hemem/keen")
    assert "notier beats hemem/keen: not robust" in again.stdout
    assert "cached" in again.stderr or not again.stderr
    for claim, said in (
        ("hemen beats notier", "did you mean 'hemem'?"),
        ("hemem beats notier", "write hemem/default"),
        ("hemem/keen beats notier on gups", "did you mean 'small'?"),
    ):
        refused = tiertune(*common, "--claim", claim)
        assert refused.exit_code == 2, refused.output
        assert said in refused.stderr


def test_a_campaign_is_held_to_its_own_conclusion(tmp_path: Path) -> None:
    from tests.cli.small import write_small

    write_small(tmp_path)
    results = ("--results", tmp_path / "results")
    assert tiertune("tune", tmp_path / "small.yaml", *results).exit_code == 0
    ran = tiertune(
        "sensitivity", "small", *results, "--parameters", "migration_cost", "--together", "0", "--json"
    )
    assert ran.exit_code == 0, ran.output
    found = json.loads(ran.stdout)
    assert found["claim"] == "hemem/tuned beats hemem/default"
    assert found["scenes"][0]["models"] == 3
    lead = found["scenes"][0]["nominal_lead_pct"]
    assert lead is not None
    report = json.loads((tmp_path / "results" / "small" / "report.json").read_text())
    (line,) = report["robustness"]
    assert (line["claim"], line["models"], line["nominal_lead_pct"]) == (found["claim"], 3, lead)
    assert line["lowest_lead_pct"] <= lead <= line["highest_lead_pct"]
    assert not any("tiertune sensitivity" in text for text in report["not_measured"])
    html = (tmp_path / "results" / "small" / "report.html").read_text()
    assert "hemem/tuned beats hemem/default" in html
