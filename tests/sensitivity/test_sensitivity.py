"""`tiertune sensitivity`: every parameter reaches the model, and verdicts follow from what is measured."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest

from tests.cli.small import WORKLOAD, tiertune
from tiertune.files import InputError
from tiertune.machines.definition import load_machine
from tiertune.tuner.sensitivity.conclusion import Conclusion, read_conclusion
from tiertune.tuner.sensitivity.page import document_of, lead_rows, leads_of, percent, span_with_median, told
from tiertune.tuner.sensitivity.parameters import PARAMETERS, changed_machine, samples_of, varied_on
from tiertune.tuner.sensitivity.picture import margins, tornado
from tiertune.tuner.sensitivity.study import SceneStudy, Verdict, judged

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
    machine = load_machine("icx-pmem")
    low, high = (changed_machine(machine, {one.name: value}) for value in (one.low, one.high))
    assert low != high
    assert len(one.source.split()) > 5
    assert one.low < one.high
    assert one.at(0.0) == pytest.approx(one.low)
    assert one.at(1.0) == pytest.approx(one.high)


def test_only_what_a_machine_depends_on_is_varied() -> None:
    idle = {"random_bandwidth"}
    names = {one.name for one in PARAMETERS}
    assert {one.name for one in varied_on(PARAMETERS, [load_machine("skx-numa")])} == names - idle
    machines = [load_machine("skx-numa"), load_machine("icx-pmem")]
    assert varied_on(PARAMETERS, machines) == list(PARAMETERS)


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
    conclusion, leads = Conclusion("a", "b", by_pct, None), [5.0, 4.0, 8.0, *together]
    study = judged("s", conclusion, samples, parameters, leads)
    assert study.verdict == verdict
    assert study.swings[0].size() == 4.0
    document = document_of("s", conclusion, parameters, samples, [study], [])
    assert f"a beats b{f' by {by_pct:g} %' if by_pct else ''}: " in document["told"]
    assert "migration_cost" in tornado(document, document["scenes"][0], "name")
    assert leads_of(document, document["scenes"][0]) == leads


def study_of(name: str, leads: list[float | None], by_pct: float = 0.0) -> SceneStudy:
    """Of the first two parameters alone: nominal, low and high of each."""
    parameters = PARAMETERS[:2]
    return judged(name, Conclusion("a", "b", by_pct, None), samples_of(parameters, 0), parameters, leads)


SENTENCES: list[tuple[list[list[float | None]], str]] = [
    ([[5.0, 4.0, 6.0, 5.0, 5.0]], "robust, it holds in all 5 models"),
    ([[5.0] * 5, [3.0] * 5], "robust, it holds in all 5 models in each of 2 scenarios"),
    ([[5.0, -1.0, 6.0, 5.0, 5.0]], "not robust, it holds in 4 of 5 models; migration_cost alone can undo it"),
    (
        [[5.0, -1.0, 6.0, 5.0, -2.0], [5.0] * 5],
        (
            "not robust, it holds in 8 of 10 pairs of model and scenario, robust in 1 of 2 scenarios;"
            " migration_cost or parallelism_random alone can undo it"
        ),
    ),
    (
        [[-1.0] * 5, [5.0] * 5],
        (
            "not robust, it holds in 5 of 10 pairs of model and scenario, robust in 1 of 2 scenarios;"
            " not even with the machine file's own values in 1 of 2 scenarios"
        ),
    ),
    ([[5.0, None, 5.0, 5.0, None]], "not known, 2 of 5 models failed"),
    ([[5.0, None, 5.0, 5.0, 5.0], [5.0] * 5], "not known, 1 of 10 pairs of model and scenario failed"),
]


@pytest.mark.parametrize(("scenes", "sentence"), SENTENCES)
def test_the_verdict_in_a_sentence(scenes: list[list[float | None]], sentence: str) -> None:
    studies = [study_of(f"s{number}", leads) for number, leads in enumerate(scenes)]
    assert told(Conclusion("a", "b", 0.0, None), studies) == f"a beats b: {sentence}"


def test_all_together_may_undo_what_nothing_undoes_alone() -> None:
    parameters, samples = PARAMETERS[:1], samples_of(PARAMETERS[:1], 4)
    conclusion = Conclusion("a", "b", 0.0, None)
    study = judged("s", conclusion, samples, parameters, [5.0, 4.0, 6.0, 5.0, -1.0, -1.0, 5.0])
    assert told(conclusion, [study]) == (
        "a beats b: not robust, it holds in 5 of 7 models; no parameter undoes it alone"
    )


def test_scenarios_beside_each_other() -> None:
    conclusion, parameters = Conclusion("a", "b", 2.0, None), PARAMETERS[:2]
    studies = [
        study_of("one", [5.0, 4.0, 6.0, 1.5, 5.0], 2.0), study_of("two", [5.0, None, 6.0, 5.0, 5.0], 2.0),
    ]  # fmt: skip
    document = document_of("s", conclusion, parameters, samples_of(parameters, 0), studies, [])
    svg = margins(document, "name")
    assert re.findall(r">([+-][0-9.]+|failed)<", svg) == ["+5.0", "+4.0", "+1.5", "+5.0", "failed", "+5.0"]
    assert margins({**document, "scenes": document["scenes"][:1]}, "name") == ""
    heads, *rows = lead_rows(document, document["scenes"])
    names = [parameter.name for parameter in parameters]
    assert heads == ["scene", "model", "changed", *names, "lead_pct", "needed_lead_pct", "holds"]
    assert rows[0] == ["one", "nominal", "nominal", None, None, 5.0, 2.0, True]
    assert [row[-1] for row in rows] == [True, True, True, False, True, True, None, True, True, True]


def test_the_median_of_an_even_number_of_leads_lies_between_the_two_in_the_middle() -> None:
    assert span_with_median([9.0, -1.0, 1.0, 3.0]) == "-1.0 % to +9.0 %, median +2.0 %"


def test_leads_next_to_nothing_keep_their_sign() -> None:
    leads = (None, 0.0, 12.34, -0.06, -0.012, 0.0004)
    assert [percent(lead) for lead in leads] == [
        "failed", "+0.0 %", "+12.3 %", "-0.1 %", "-0.01 %", "+0.0004 %",
    ]  # fmt: skip


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
    # Its machine does not say what single lines cost.
    models = 1 + 2 * (len(PARAMETERS) - 1) + 4
    assert scene["models"] == models
    assert found["verdict"] == scene["verdict"] == "robust"
    swings = {one["parameter"]: one for one in scene["one_at_a_time"]}
    # Dearer moves take from the lead of the system that moves; faults are none of its business.
    assert swings["migration_cost"]["lead_at_low_pct"] > swings["migration_cost"]["lead_at_high_pct"]
    assert swings["hint_fault_ns"]["lead_at_low_pct"] == swings["hint_fault_ns"]["lead_at_high_pct"]
    assert swings["parallelism_random"]["lead_at_low_pct"] != swings["parallelism_random"]["lead_at_high_pct"]
    assert found["told"] == f"hemem/keen beats notier: robust, it holds in all {models} models"
    assert [Path(path).name for path in found["files"]] == [
        "report.html", "sensitivity.json", "leads.csv", "tornado-small.svg",
    ]  # fmt: skip
    texts = {Path(path).name: Path(path).read_text(encoding="utf-8") for path in found["files"]}
    assert f"<h1>{found['told']}</h1>" in texts["report.html"]
    assert "--claim 'hemem/keen beats notier' --together 4 --results results-again" in found["reproduce"][-1]
    assert texts["tornado-small.svg"].startswith("<svg xmlns=")
    lines = list(csv.DictReader(io.StringIO(texts["leads.csv"])))
    assert [line["holds"] for line in lines] == ["True"] * models
    assert float(lines[0]["lead_pct"]) == scene["nominal_lead_pct"]
    assert scene["nominal_interval_pct"] is None, "one seed has no interval"
    # The other way round nothing holds, and all of it is cached.
    again = tiertune(*common, "--claim", "notier beats hemem/keen")
    said = f"notier beats hemem/keen: not robust, it holds in 0 of {models} models"
    assert f"{said}; not even with the machine file's own values" in again.stdout
    assert "cached" in again.stderr or not again.stderr
    refused = tiertune(*common, "--claim", "hemem/keen beats notier", "--parameters", "random_bandwidth")
    assert refused.exit_code == 2, refused.output
    assert "no machine of this study depends on random_bandwidth" in refused.stderr
    for claim, said in (
        ("hemen beats notier", "did you mean 'hemem'?"),
        ("hemem beats notier", "write hemem/default"),
        ("hemem/keen beats notier on gups", "did you mean 'small'?"),
    ):
        refused = tiertune(*common, "--claim", claim)
        assert refused.exit_code == 2, refused.output
        assert said in refused.stderr


def test_a_campaign_that_found_nothing_has_no_conclusion_to_vary(tmp_path: Path) -> None:
    from tests.cli.small import write_small

    results = ("--results", tmp_path / "results")
    assert tiertune("tune", write_small(tmp_path), *results).exit_code == 0
    said = tiertune("sensitivity", "small", *results)
    assert said.exit_code == 2
    assert "small/journal.sqlite: nothing that the campaign found beats the default" in said.stderr


def test_a_campaign_is_held_to_its_own_conclusion(tmp_path: Path) -> None:
    from tests.cli.small import GAINFUL, write_small

    write_small(tmp_path, ratio=GAINFUL)
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
    low, high = found["scenes"][0]["nominal_interval_pct"]
    assert low < high
    assert found["scenes"][0]["seeds"] == 3
    # The winner is what the campaign found, so that is run first.
    campaign = tmp_path / "results" / "small" / "campaign.yaml"
    again = (f"tune {campaign}", "sensitivity small --parameters migration_cost --together 0")
    assert found["reproduce"][-2:] == [f".venv/bin/tiertune {line} --results results-again" for line in again]
    report = json.loads((tmp_path / "results" / "small" / "report.json").read_text())
    (line,) = report["robustness"]
    assert (line["claim"], line["models"], line["nominal_lead_pct"]) == (found["claim"], 3, lead)
    assert line["lowest_lead_pct"] <= lead <= line["highest_lead_pct"]
    assert not any("tiertune sensitivity" in text for text in report["not_measured"])
    html = (tmp_path / "results" / "small" / "report.html").read_text()
    assert "hemem/tuned beats hemem/default" in html
