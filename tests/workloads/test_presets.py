"""Presets: the packaged workloads at named sizes, and what is said where one does not fit."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from tests.cli.small import tiertune
from tests.source_tree import ROOT
from tiertune import files
from tiertune.files import InputError, names
from tiertune.machines.definition import load_machine
from tiertune.memory_limit import free_bytes
from tiertune.tuner.campaign import load_campaign
from tiertune.tuner.trial import called
from tiertune.workloads.definition import load_workload
from tiertune.workloads.kernels import carried, kernel
from tiertune.workloads.preset import lasting
from tiertune.workloads.profile import recording_bytes

OWN_FILE = [name for name in names("workloads") if name.endswith("-ci")]
"""Workloads that had a file for their ci preset before there were presets."""

WITH_PRESETS = [name for name in names("workloads") if name not in OWN_FILE]

OTHERS_ARE_RESIDENT = {"liblinear-kdd12", "liblinear-kddb", "pr-twitter", "bc-twitter"}
"""Where the program keeps more than the objects that are modelled, or the graph is a stand-in; the page on
the workload's preset says so."""


@pytest.mark.parametrize("name", WITH_PRESETS)
def test_every_preset_is_planned(name: str) -> None:
    workload, machine = load_workload(name), load_machine("skx-numa")
    assert {"smoke", "ci"} <= set(workload.presets)
    for preset, given in workload.presets.items():
        chosen = load_workload(f"{name}@{preset}")
        assert (chosen.name, chosen.description) == (f"{name}-{preset}", given.description)
        assert chosen.threads == (given.threads or workload.threads)
        assert chosen.footprint_bytes > 0
        if chosen.sim.record is not None:
            assert recording_bytes(chosen, machine, chosen.threads) < free_bytes()
            if preset != "paper":
                assert chosen.footprint_bytes <= workload.footprint_bytes
            if preset == "smoke":
                assert chosen.footprint_bytes < 2**30
        if preset == "ci":
            assert 2**30 <= chosen.footprint_bytes <= 8 * 2**30
        if given.rss is not None and name not in OTHERS_ARE_RESIDENT:
            assert chosen.footprint_bytes == pytest.approx(given.rss, rel=0.16)


@pytest.mark.parametrize("name", WITH_PRESETS)
def test_there_is_a_preset_of_the_papers_or_the_reason_why_not(name: str) -> None:
    paper = load_workload(name).presets.get("paper")
    text = (ROOT / "workloads" / f"{name}.yaml").read_text()
    assert (paper is None) == ("# No preset paper: " in text)
    if paper is not None:
        assert paper.source


@pytest.mark.parametrize("name", OWN_FILE)
def test_a_file_of_its_own_is_the_ci_preset(name: str) -> None:
    preset = load_workload(f"{name.removesuffix('-ci')}@ci")
    assert preset.model_dump(mode="json") == load_workload(name).model_dump(mode="json")


def test_a_preset_changes_nothing_that_is_stored_of_the_workload(tmp_path: Path) -> None:
    with_presets = Path("workloads/gups.yaml").read_text()
    document = yaml.safe_load(with_presets)
    del document["presets"]
    (tmp_path / "gups.yaml").write_text(yaml.safe_dump(document))
    plain = load_workload(str(tmp_path / "gups.yaml"))
    assert plain.model_dump(mode="json") == load_workload("gups").model_dump(mode="json")


def test_the_original_program_is_not_that_of_another_size() -> None:
    assert load_workload("bc-kron@paper").upstream is not None
    assert load_workload("bc-kron@ci").upstream is None


MINE = """\
name: mine
version: 1
description: a graph
source: made up for this test
metric: {name: runtime_s, direction: minimize}
threads: 4
sim:
  record: {kernel: bc, graph: kron, scale: 12}
presets:
  big: {description: larger, carry: {scale: 20}}
"""

CAMPAIGN = """\
name: one
scenarios: [{workload: ./mine.yaml@big, machine: skx-numa, ratio: "1:4"}]
systems: [{system: hemem, space: hemem}]
budget: {trials: 2, initial: 2, random_share: 0}
"""


def test_a_campaign_names_a_preset_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(MINE)
    (tmp_path / "one.yaml").write_text(CAMPAIGN)
    campaign = load_campaign(str(tmp_path / "one.yaml"))
    (cell,) = campaign.cells()
    assert cell.scenario.workload == f"{tmp_path / 'mine.yaml'}@big"
    assert called(cell.scenario.workload) == "mine@big"
    assert campaign.workload(cell.scenario.workload).name == "mine-big"
    # What is stored is read back from anywhere.
    (tmp_path / "elsewhere").mkdir()
    stored = tmp_path / "elsewhere" / "campaign.yaml"
    stored.write_text(yaml.safe_dump(campaign.document()))
    assert load_campaign(str(stored)).cells()[0].scenario == cell.scenario


def test_names_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "at@home").mkdir()
    (tmp_path / "at@home" / "mine.yaml").write_text(MINE)
    (tmp_path / "at@home" / "odd@big").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    assert lasting("gups@ci") == "gups@ci"
    assert lasting("at@home/mine.yaml@big") == f"{tmp_path}/at@home/mine.yaml@big"
    assert lasting("at@home/mine.yaml") == f"{tmp_path}/at@home/mine.yaml"
    assert lasting("at@home/odd@big") == f"{tmp_path}/at@home/odd@big"
    assert load_workload("at@home/odd@big").name == "mine"
    (tmp_path / "rack.yaml").write_text("")
    assert files.lasting("machines", "skx-numa") == "skx-numa"
    for base in (None, tmp_path / "at@home"):
        assert files.lasting("machines", "rack.yaml", base) == f"{tmp_path}/rack.yaml"
    with pytest.raises(InputError, match="did you mean 'skx-numa'"):
        files.lasting("machines", "skx-nuna")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("gups@c", "workload gups has no preset 'c'; did you mean 'gups@ci'?"),
        ("gups-host@", "'gups-host@': no preset stands after the @; leave that out"),
        ("btree-ci@smoke", "workload btree-ci has no preset 'smoke'; it has none"),
        ("gubs@ci", "there is no workload 'gubs'; did you mean 'gups'?"),
    ],
)
def test_a_preset_that_is_not_there(name: str, said: str) -> None:
    with pytest.raises(InputError) as refused:
        load_workload(name)
    assert refused.value.sentences == (said,)
    shown = tiertune("run", "hemem", "--workload", name, "--machine", "skx-numa")
    assert (shown.exit_code, shown.stderr) == (2, f"tiertune: {said}\n")


def test_the_command_that_tells_of_notes_is_one_that_works(tmp_path: Path) -> None:
    results = ("--results", tmp_path)
    ran = tiertune("run", "hemem", "-w", "cachelib@smoke", "-m", "skx-numa", "--ratio", "1:4", *results)
    told = re.search(r"notes on how: tiertune (record [^\n]*(?:\n--page-size \S+)?)", ran.stdout)
    assert told is not None, ran.stdout
    assert told[1].split() == ["record", "cachelib@smoke", "-m", "skx-numa", "--page-size", "2MiB"]
    again = tiertune(*told[1].split(), *results)
    assert (again.exit_code, again.stdout.count("note: ")) == (
        0,
        int(ran.stdout.split(" notes on")[0].split()[-1]),
    )


@pytest.mark.long
@pytest.mark.parametrize("name", WITH_PRESETS)
def test_smoke_presets_run_to_their_end(name: str, tmp_path: Path) -> None:
    ran = tiertune(
        *("run", "hemem", "--workload", f"{name}@smoke", "--machine", "skx-numa", "--ratio", "1:4"),
        *("--json", "--results", tmp_path),
    )
    assert ran.exit_code == 0, ran.stderr
    metric = load_workload(name).metric.name
    assert json.loads(ran.stdout)["median"][metric] > 0


def test_show_lists_presets_with_their_footprint() -> None:
    shown = tiertune("show", "btree", "--json")
    assert shown.exit_code == 0, shown.stderr
    document = json.loads(shown.stdout)
    page = (ROOT / "docs/json.md").read_text()
    (keys,) = re.findall(r"^\| `show` of a workload \| (.*?) \|", page, re.MULTILINE)
    assert list(document) == re.findall(r"`([a-z_]+)`", keys)
    sizes = {preset["name"]: preset["footprint_bytes"] for preset in document["presets"]}
    assert sizes == {name: load_workload(f"btree@{name}").footprint_bytes for name in sizes}
    assert list(sizes) == ["smoke", "ci", "paper"]
    assert document["presets"][2]["rss_bytes"] == 12421 << 20
    roles = {one["name"]: one["role"] for one in document["metrics"]}
    assert roles["runtime_s"] == "objective"
    assert [name for name, role in roles.items() if role == "objective"] == [document["metric"]["name"]]
    assert (roles["throughput_mops"], roles["promotions"], roles["matches"]) == (
        "secondary",
        "covariate",
        "covariate",
    )
    plain = tiertune("show", "btree").stdout
    assert "on hosts   matches (covariate): lookups that found their key" in plain
    assert "btree@smoke" in plain
    assert "tierload mitosis btree --keys=400000 --lookups=1000000 --seed=1 --carry=keys=64000000" in plain
    assert document["original"][0] == "btree/bench_btree_mt"
    assert "1.821 GiB" in plain
    nearest = {
        "btrea": "there is no workload 'btrea'; did you mean 'btree'?",
        "hemen": "did you mean 'hemem'?",
    }
    for name, said in nearest.items():
        refused = tiertune("show", name)
        assert refused.exit_code == 2
        assert said in refused.stderr
    refused = tiertune("show", "btree", "--native")
    assert refused.stderr == "tiertune: --native: is of systems, and btree is a workload\n"


@pytest.mark.parametrize(
    "name", [name for name in WITH_PRESETS if load_workload(name).sim.streams is not None]
)
def test_streams_have_a_kernel_that_hosts_run(name: str) -> None:
    """What they stand for, at the size of the streams, and as much shorter and smaller as a preset is."""
    whole, smoke = (load_workload(word) for word in (name, f"{name}@smoke"))
    parts = [workload.on_host for workload in (whole, smoke, load_workload(f"{name}@paper"))]
    words = [part.words(whole.threads, 1) for part in parts if part is not None]
    assert len(words) == 3
    assert words[2] == words[0]
    (work,) = (parameter.name for parameter in kernel(words[0][2]).parameters if parameter.work)
    of = [
        int(next(word for word in line if word.startswith(f"--{work}=")).partition("=")[2]) for line in words
    ]
    assert of[1] == round(of[0] * 0.01)
    size_share = whole.presets["smoke"].size_share
    sizes = () if size_share is None else carried(words[0][2])
    different = [one for one, other in zip(words[0], words[1], strict=True) if one != other]
    assert {word.partition("=")[0] for word in different} == {
        f"--{key}".replace("_", "-") for key in (work, *sizes)
    }
    assert parts[0] is not None
    assert parts[0].footprint == whole.footprint_bytes
    assert parts[1] is not None
    assert parts[1].footprint == smoke.footprint_bytes
    assert smoke.footprint_bytes == pytest.approx(whole.footprint_bytes * (size_share or 1.0), rel=1e-4)
    # Nothing of it is stored with results, which are of the streams.
    assert "native" not in whole.model_dump(mode="json")


def test_a_smaller_preset_of_streams_is_the_same_on_less_memory() -> None:
    whole, smoke = load_workload("gups-replaced").native, load_workload("gups-replaced@smoke").native
    assert whole is not None
    assert smoke is not None
    before, after = (native.model_dump() for native in (whole, smoke))
    assert after["table_bytes"] == round(before["table_bytes"] * 0.01 / 4096) * 4096
    assert after["hot_bytes"] / after["table_bytes"] == pytest.approx(1 / 3, rel=1e-4)
    assert {key for key in before if before[key] != after[key]} == {"table_bytes", "hot_bytes", "updates"}


def test_hosts_repeat_what_the_simulation_repeats() -> None:
    for name, runs in (("bfs-twitter", 16), ("btree@ci", 3), ("cachelib@ci", 6), ("gups", None)):
        part = load_workload(name).on_host
        assert part is not None
        assert [word for word in part.command if word.startswith("--runs")] == (
            [] if runs is None else [f"--runs={runs}"]
        )
    # A kernel that comes to an end has nothing to go on with.
    assert load_workload("cc-kron").sim.carry.runs > 1
    components = load_workload("cc-kron").on_host
    assert components is not None
    assert not any(word.startswith("--runs") for word in components.command)
