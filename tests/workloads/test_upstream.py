"""Original programs: what they print is read as it is (`outputs` has what real runs printed), wrong results
are no measurement, and a campaign that names their folder runs them."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from tests.cli.small import WORKLOAD, tiertune
from tests.live.test_launch import NODES, TRIAL, said
from tiertune.files import names
from tiertune.tuner.backend import HostUnfit
from tiertune.tuner.campaign import load_campaign
from tiertune.tuner.live.backend import program_here
from tiertune.tuner.live.launch import launch, metrics_of
from tiertune.tuner.live.probing import check_program
from tiertune.workloads.definition import load_workload
from tiertune.workloads.live import HostPart
from tiertune.workloads.reading import NoMetrics, Reading, number_in

OUTPUTS = Path(__file__).with_name("outputs")
BARE = replace(TRIAL, system="notier")
FAMILIES = {
    "btree": ("btree-mitosis", 6.0, 0),
    "gapbs": ("gapbs-bc", 0.53179, 0),
    "graph500": ("graph500", 1.87603226875000008e-02, 0),
    "gups": ("gups", 0.9945373, 0),
    "npb": ("npb-ft", 1.95, 0),
    "redis": ("memtier", 0.0218466, 0),
    "silo": ("silo-ycsb", 0.266332, 0),
    "xsbench": ("xsbench", 1.669, 1),
}
"""By the folder of the program: what it printed, its metric in our unit, and the exit code of that run."""

PHASES = {
    "gapbs-bc": {"phase.generate_s": 1.46329, "phase.build_s": 0.59889},
    "graph500": {"phase.build_s": 3.66391819000000007e-01},
}
"""What a program says of the time before, where it makes its input itself."""


def output(name: str) -> str:
    return (OUTPUTS / f"{name}.txt").read_text()


def originals() -> list[str]:
    return [name for name in names("workloads") if load_workload(name).upstream is not None]


@pytest.mark.parametrize("name", originals())
def test_what_a_program_printed_is_read(name: str) -> None:
    workload = load_workload(name)
    assert workload.upstream is not None
    printed, expected, code = FAMILIES[workload.upstream.command[0].split("/")[0]]
    part = workload.upstream.host("/opt")
    stream = "errors" if printed.startswith("silo") else "output"
    ran = said(**{"output": "", "errors": "", stream: output(printed), "returncode": code})
    found = metrics_of(BARE, part, ran, {})
    own_input = "-f" not in workload.upstream.command
    assert found == {
        workload.metric.name: pytest.approx(expected),
        **(PHASES.get(printed, {}) if own_input else {}),
    }
    whole = output(printed).splitlines()
    for cut in ("", whole[0] + "\n" if len(whole) > 1 else whole[0][:6]):
        with pytest.raises(NoMetrics):
            metrics_of(BARE, part, {**ran, stream: cut}, {})
    # Nothing of a program that ended badly is believed.
    with pytest.raises(RuntimeError, match="ended with 7"):
        metrics_of(BARE, part, {**ran, "returncode": 7}, {})


def test_all_families_are_there() -> None:
    parts = [load_workload(name).upstream for name in originals()]
    assert {part.command[0].split("/")[0] for part in parts if part} == set(FAMILIES)
    assert {printed for printed, _, _ in FAMILIES.values()} <= {path.stem for path in OUTPUTS.iterdir()}


@pytest.mark.parametrize(
    ("printed", "expression", "expected"),
    [
        ("gapbs-bc", {"regex": r"^Trial Time:\s+([0-9.]+)", "pick": "all"}, 0.53179),
        ("gapbs-bc", {"regex": r"^Trial Time:\s+([0-9.]+)", "pick": "all", "aggregate": "sum"}, 1.06358),
        ("gapbs-bc", {"regex": r"^Trial Time:\s+([0-9.]+)", "pick": "all", "discard": 1}, 0.55592),
        ("gapbs-bc", {"regex": r"^Trial Time:\s+([0-9.]+)", "pick": "first"}, 0.50766),
        ("graph500", {"regex": r"^harmonic_mean_TEPS: ([0-9.eE+-]+)$"}, 2.79465342218943611e07),
        ("graph500-mpi", {"regex": r"^bfs\s+harmonic_mean_TEPS:\s+!?\s*([0-9.eE+]+)"}, 8.95767e06),
        ("masim", {"regex": r"^.+?:\s+([\d,]+) accesses/msec, [\d,]+ msecs run$", "scale": 1e-3}, 54.089),
        ("memtier", {"regex": r"^Totals\s+([0-9.]+)", "scale": 1e-6}, 0.0218466),
        ("redis-benchmark", {"regex": r"^GET: ([0-9.]+) requests per second"}, 21881.84),
        ("xsbench", {"regex": r"^Lookups/s:\s+([0-9,]+)"}, 407549.0),
        ("btree", {"regex": r"^got \d+ matches in (\d+) seconds$"}, 52.0),
    ],
)
def test_expressions_read_what_real_programs_print(
    printed: str, expression: dict[str, object], expected: float
) -> None:
    found = number_in("it", Reading.model_validate(expression), output(printed), "")
    assert math.isclose(found, expected)


@pytest.mark.parametrize("printed", ["0,93", "1,5", "12,3456", "1,234,56", "nan", "inf", "-inf", "1_000"])
def test_what_may_be_another_number_is_none(printed: str) -> None:
    """Decimal commas of another locale, and rates over no time."""
    reading = Reading(regex=r"^Totals\s+(\S+)$")
    with pytest.raises(NoMetrics, match="is no number"):
        number_in("it", reading, f"Totals {printed}\n", "")


@pytest.mark.parametrize(
    ("printed", "number"), [("1,234", 1234.0), ("12,345,678.5", 12345678.5), ("-7e-3", -7e-3)]
)
def test_thousands_may_be_told_apart_by_commas(printed: str, number: float) -> None:
    reading = Reading(regex=r"^Totals\s+(\S+)$")
    assert number_in("it", reading, f"Totals {printed}\n", "") == number


def test_a_wrong_result_is_no_measurement() -> None:
    workload = load_workload("npb-ft")
    assert workload.upstream is not None
    part = workload.upstream.host("/opt")
    wrong = output("npb-ft").replace("SUCCESSFUL", "UNSUCCESSFUL")
    with pytest.raises(NoMetrics, match="wrong result: verification is UNSUCCESSFUL, not SUCCESSFUL"):
        part.read(wrong)
    with pytest.raises(NoMetrics, match="the check verification"):
        part.read(output("npb-ft").replace("Verification", "Unverified"))
    bc = load_workload("bc-kron").upstream
    assert bc is not None
    with pytest.raises(NoMetrics, match="verification is FAIL"):
        bc.read(output("gapbs-bc") + "Verification:           FAIL\n")


def test_a_tree_of_one_key_is_no_measurement() -> None:
    btree = load_workload("btree").upstream
    assert btree is not None
    with pytest.raises(NoMetrics, match="matches is 0, not half of the lookups"):
        btree.read(output("btree"))


def test_reads_of_keys_that_are_not_there_are_no_measurement() -> None:
    """They are faster than those that find something."""
    redis = load_workload("redis-ycsb-c").upstream
    assert redis is not None
    with pytest.raises(NoMetrics, match=r"misses is 9000\.00, not 0\.00"):
        redis.read(output("memtier").replace("0.00  ", "9000.00  ", 1))


def test_a_harmonic_mean_of_a_number_below_0_is_no_measurement() -> None:
    reading = Reading(regex=r"^TEPS (\S+)$", pick="all", aggregate="harmonic")
    with pytest.raises(NoMetrics, match="it is a harmonic mean, and -1 is among its numbers"):
        number_in("it", reading, "TEPS 5\nTEPS -1\n", "")


def test_files_beside_the_program_are_found_in_its_folder() -> None:
    graph = load_workload("pr-twitter").upstream
    assert graph is not None
    assert graph.host("/opt/o").words(4, 1)[-4:] == ["-f", "/opt/o/gapbs/twitter.sg", "-n", "3"]


def test_below_the_daemon_its_own_exit_code_counts() -> None:
    xsbench = load_workload("xsbench").upstream
    assert xsbench is not None
    part = xsbench.host("/opt")
    ran = said(output=output("xsbench"), returncode=4)
    assert metrics_of(TRIAL, part, ran, {"workload": {"exit_code": 1}}) == {"runtime_s": 1.669}
    with pytest.raises(RuntimeError, match="ended with 9"):
        metrics_of(TRIAL, part, ran, {"workload": {"exit_code": 9}})
    with pytest.raises(RuntimeError, match="ended with 4"):
        metrics_of(TRIAL, part, ran, {})


def test_time_on_the_wall_needs_no_output() -> None:
    part = HostPart(command=["bench"], footprint=1 << 30, metrics={"runtime_s": "wall"})
    assert part.read("", "", 12.5) == {"runtime_s": 12.5}


CAMPAIGN = """\
name: rack
programs: {folder}
scenarios:
  - {{workload: bc-kron28, machine: skx-numa, ratio: "1:4"}}
systems:
  - {{system: hemem, space: hemem}}
budget: {{trials: 2, initial: 2, random_share: 0}}
validation: {{seeds: 5}}
tracking: {{mlflow: false}}
"""


def test_a_campaign_with_their_folder_runs_them(tmp_path: Path) -> None:
    (tmp_path / "rack.yaml").write_text(CAMPAIGN.format(folder="/opt/originals"))
    campaign = load_campaign(str(tmp_path / "rack.yaml"))
    part = campaign.workload("bc-kron28").host
    assert part is not None
    words = launch(TRIAL, {}, part, 12, NODES).command
    assert words[words.index("--") + 1 :] == [
        *("env", "OMP_NUM_THREADS=12", "LC_ALL=C"),
        *("/opt/originals/gapbs/bc", "-g", "28", "-n", "3"),
    ]
    assert yaml.safe_load(yaml.safe_dump(campaign.document()))["programs"] == "/opt/originals"
    without = (tmp_path / "rack.yaml").read_text().replace("programs: /opt/originals\n", "")
    (tmp_path / "rack.yaml").write_text(without)
    plain = load_campaign(str(tmp_path / "rack.yaml"))
    native = plain.workload("bc-kron28").on_host
    assert native is not None
    assert native.command[:3] == ["tierload", "gapbs", "bc"]
    assert "programs" not in plain.document()


def test_a_program_that_only_its_folder_would_run_is_named(tmp_path: Path) -> None:
    upstream = load_workload("bc-kron28").upstream
    assert upstream is not None
    part = yaml.safe_dump({"upstream": upstream.model_dump(mode="json", exclude_none=True)})
    (tmp_path / "small-workload.yaml").write_text(WORKLOAD + part)
    (tmp_path / "rack.yaml").write_text(
        CAMPAIGN.replace("programs: {folder}\n", "").replace("bc-kron28", "./small-workload.yaml").format()
    )
    refused = tiertune("tune", tmp_path / "rack.yaml", "--here", "0,1", "--results", tmp_path / "results")
    assert refused.exit_code == 2
    assert "an original program: programs: FOLDER in the campaign runs it" in refused.stderr


def test_a_program_is_told_from_others_before_the_first_trial(tmp_path: Path) -> None:
    bc = load_workload("bc-kron").upstream
    assert bc is not None
    part = bc.host(str(tmp_path))
    with pytest.raises(HostUnfit, match="there is no program"):
        check_program(part, program_here)
    program = tmp_path / "gapbs" / "bc"
    program.parent.mkdir()
    for text, right in (("Average Time:        0.5", True), ("usage: bc [file ...]", False)):
        program.write_text(f"#!/bin/sh\necho '{text}'\n")
        program.chmod(0o755)
        if right:
            check_program(part, program_here)
        else:
            with pytest.raises(HostUnfit, match="is not the program of the workload's file"):
                check_program(part, program_here)
