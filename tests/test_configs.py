"""Every wrong file gets exactly the sentences that lie beside it; every right one is read, packaged ones too.

`UPDATE_GOLDEN=1 pytest tests/test_configs.py` rewrites the sentences; the diff is what to review.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest
import yaml

from tests.configs.corpus import KINDS, ROOT, files, load
from tiertune.document import parse
from tiertune.files import KINDS as FOLDERS
from tiertune.files import InputError, find, names
from tiertune.machines.definition import load_machine
from tiertune.mistakes import shown
from tiertune.tuner.campaign import fit_mistake
from tiertune.tuner.schemas import schema_for

BAD = [(kind, path) for kind in KINDS for path in files("bad", kind)]
GOOD = [(kind, path) for kind in KINDS for path in files("good", kind)]
PACKAGED = [(FOLDERS[folder], folder, name) for folder in FOLDERS for name in names(folder)]


@pytest.fixture(autouse=True)
def _in_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.mark.parametrize(("kind", "path"), BAD, ids=[f"{kind}-{path.stem}" for kind, path in BAD])
def test_wrong_file_is_answered(kind: str, path: Path) -> None:
    with pytest.raises(InputError) as caught:
        load(kind, path)
    said = "".join(f"{sentence}\n" for sentence in caught.value.sentences)
    golden = path.with_suffix(".expected")
    if os.environ.get("UPDATE_GOLDEN") == "1":
        golden.write_text(said, encoding="utf-8")
    assert said == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize(("kind", "path"), BAD, ids=[f"{kind}-{path.stem}" for kind, path in BAD])
def test_answers_are_sentences_for_people(kind: str, path: Path) -> None:
    """Holds the golden files themselves to the rules, so that rewriting them cannot let one slip."""
    for sentence in path.with_suffix(".expected").read_text(encoding="utf-8").splitlines():
        assert sentence.startswith(f"{path}:"), sentence
        assert len(sentence) < 400, sentence
        jargon = r"pydantic|traceback|validat(ion|or) error|\b(dict|tuple|str|None|NoneType)\b|loc=|<class"
        assert not re.search(jargon, sentence), sentence


def test_corpus_is_as_large_as_promised() -> None:
    assert len(BAD) >= 48
    for kind in KINDS:
        assert len(files("bad", kind)) >= 10
        assert {path.stem.split("-")[0] for path in files("good", kind)} >= {"minimal", "full"}


def test_every_sentence_file_belongs_to_a_wrong_file() -> None:
    stray = [
        p for p in (ROOT / "tests/configs/bad").rglob("*.expected") if not p.with_suffix(".yaml").exists()
    ]
    assert stray == []


@pytest.mark.parametrize(("kind", "path"), GOOD, ids=[f"{kind}-{path.stem}" for kind, path in GOOD])
def test_right_file_is_read(kind: str, path: Path) -> None:
    loaded = load(kind, path)
    assert loaded.name == parse((ROOT / path).read_text(encoding="utf-8")).data["name"]


@pytest.mark.parametrize(("kind", "folder", "name"), PACKAGED, ids=[f"{k}-{n}" for k, _, n in PACKAGED])
def test_packaged_file_is_read_and_named_as_its_file(kind: str, folder: str, name: str) -> None:
    loaded = load(kind, find(folder, name))
    assert loaded.name == name


@pytest.mark.parametrize("kind", KINDS)
def test_full_examples_use_every_key(kind: str) -> None:
    """A key that no right example has is a key that no test has read."""
    schema = schema_for(kind)
    used = _keys([parse((ROOT / path).read_text(encoding="utf-8")).data for path in files("good", kind)])
    declared = set(schema["properties"])
    for definition in schema.get("$defs", {}).values():
        declared |= set(definition.get("properties", {}))
    assert declared - used == set()


@pytest.mark.parametrize("kind", KINDS)
def test_every_key_is_described(kind: str) -> None:
    """The description is the sentence that a missing key is answered with."""
    schema = schema_for(kind)
    for owner in (schema, *schema.get("$defs", {}).values()):
        for key, declared in owner.get("properties", {}).items():
            assert declared.get("description"), f"{owner['title']}.{key}"


def test_schema_of_an_unknown_kind() -> None:
    with pytest.raises(InputError, match="there is no kind of file 'machines'; did you mean 'machine'"):
        schema_for("machines")


@pytest.mark.parametrize("name", names("campaigns"))
def test_resolved_campaign_reads_back_as_the_same(name: str, tmp_path: Path) -> None:
    _reads_back(Path(name), tmp_path)


@pytest.mark.parametrize("path", files("good", "campaign"), ids=lambda path: path.stem)
def test_resolved_campaign_of_paths_reads_back_as_the_same(path: Path, tmp_path: Path) -> None:
    _reads_back(path, tmp_path)


def _reads_back(campaign: Path, folder: Path) -> None:
    first = load("campaign", campaign)
    copy = folder / "campaign.yaml"
    copy.write_text(yaml.safe_dump(first.document()), encoding="utf-8")
    second = load("campaign", copy)
    assert [cell.key for cell in second.cells()] == [cell.key for cell in first.cells()]
    assert second.document() == first.document()


def test_unreadable_places(tmp_path: Path) -> None:
    (tmp_path / "folder.yaml").mkdir()
    with pytest.raises(InputError, match="this is a folder, not a machine file"):
        load("machine", tmp_path / "folder.yaml")
    with pytest.raises(InputError, match="holds no YAML files"):
        load("machine", tmp_path / "nothing" / "here.yaml")
    (tmp_path / "large.yaml").write_text("# filler\n" * 500_000, encoding="utf-8")
    with pytest.raises(InputError, match="larger than 4 MiB"):
        load("machine", tmp_path / "large.yaml")


def test_own_files_come_before_packaged_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        find("machines", "skx-numa")
        .read_text(encoding="utf-8")
        .replace("clock_ghz: 2.2", "clock_ghz: 3.3", 1)
    )
    (tmp_path / "machines").mkdir()
    (tmp_path / "machines" / "skx-numa.yaml").write_text(text, encoding="utf-8")
    (tmp_path / "machines" / "mine.yaml").write_text(text.replace("skx-numa", "mine"), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert load("machine", Path("skx-numa")).clock_ghz == 3.3
    assert {"mine", "icx-pmem"} <= set(names("machines"))


def test_preset_and_what_is_written_over_it() -> None:
    minimal = load("campaign", Path("tests/configs/good/campaign/minimal.yaml")).budget
    assert (minimal.trials, minimal.initial, minimal.random_share) == (100, 20, 0.2)
    full = load("campaign", Path("tests/configs/good/campaign/full.yaml")).budget
    assert (full.trials, full.initial, full.random_share) == (30, 10, 0.25)


def test_cells_are_all_scenarios_with_all_systems_and_searches() -> None:
    every = load("campaign", Path("tests/configs/good/campaign/full.yaml")).cells()
    assert len(every) == len({cell.key for cell in every}) == 4 * 3
    cells = [cell for cell in every if cell.search == 0]
    # A first search is named as if it were alone, so that journals from before there were several stay valid.
    assert [cell.key for cell in every[:3]] == [f"{cells[0].key}{end}" for end in ("", "#2", "#3")]
    assert [cell.scenario.page_bytes for cell in cells] == [4096, 4096, 2 * 2**20, 2 * 2**20]
    assert cells[0].scenario.contention[0].read_gbps == 10
    assert [cell.space.name for cell in cells] == ["full", "hemem"] * 2


def test_a_loaded_campaign_stays_what_it_was(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "tests/configs/good", tmp_path / "good")
    campaign = load("campaign", tmp_path / "good/campaign/full.yaml")
    (cell, *_) = campaign.cells()
    (tmp_path / "good/machine/full.yaml").write_text("name: changed", encoding="utf-8")
    assert campaign.machine(campaign.scenarios[0].machine).name == "full"
    assert campaign.workload(cell.scenario.workload).name == "full-gups"


def test_schemas_are_json() -> None:
    for kind in KINDS:
        assert json.loads(json.dumps(schema_for(kind)))["additionalProperties"] is False


def test_shown_values_stay_short() -> None:
    assert shown("x" * 1000).endswith("...")
    assert len(shown("x" * 1000)) == 60
    spelled: dict[str, object] = {"nothing": None, "true": True, "1.5": 1.5, "20": 20.0, "a list": [1]}
    assert [shown(value) for value in spelled.values()] == list(spelled)


def _keys(data: object) -> set[str]:
    if isinstance(data, dict):
        return set(data).union(*(_keys(value) for value in data.values()))
    if isinstance(data, list):
        return set().union(*(_keys(value) for value in data))
    return set()


def test_a_ratio_is_only_advised_where_it_fits_both_tiers() -> None:
    machine = load_machine("icx-upi")
    sizes = (3 * 2**30, 7 * 2**30)
    tiers = [
        tier.model_copy(update={"capacity_bytes": size})
        for tier, size in zip(machine.tiers, sizes, strict=True)
    ]
    machine = machine.model_copy(update={"tiers": tiers})
    footprint = sum(sizes) - 2**26
    text = fit_mistake(footprint, "1000:1", 2**21, machine)
    assert text is not None
    assert "fits both tiers" in text
    assert "enough for" not in text
