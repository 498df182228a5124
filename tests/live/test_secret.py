"""Secrets of live programs: they reach the program and nothing that is stored or shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.fleet.test_programs import RIGHT, Plays
from tests.live.test_host_backend import HOST, PROGRAM, SCENARIO, TRIAL, backend_in, workload
from tests.tuner.test_backends import TINY
from tiertune.files import InputError
from tiertune.tuner.execution import attempt
from tiertune.tuner.fleet import backend as fleet
from tiertune.tuner.fleet.inventory import Host
from tiertune.tuner.fleet.play import Played
from tiertune.tuner.journal_files import stored_workload
from tiertune.tuner.live.scope import Ended
from tiertune.tuner.live.secret import IN_PLACE, Secrets, secrets_of
from tiertune.tuner.simulation import SimBackend
from tiertune.tuner.trial import Status
from tiertune.workloads.definition import Workload, load_workload

SECRET = 'open "sesame" 0451'
SOURCE = "TIERTUNE_TEST_SECRET"
NAMED = f"  secret_environment: {{DB_PASSWORD: {SOURCE}}}\n"
SAYS_IT = """\
import json, os, sys
secret = os.environ["DB_PASSWORD"]
print("secret", secret, json.dumps(secret))
print("secret", secret, file=sys.stderr)
assert len(secret) == 18
"""


def with_secret(folder: Path, program: str = PROGRAM) -> Workload:
    made = workload(folder, SAYS_IT + program)
    text = (folder / "tiny.yaml").read_text() + NAMED
    (folder / "tiny.yaml").write_text(text)
    assert load_workload(str(folder / "tiny.yaml")).host != made.host
    return load_workload(str(folder / "tiny.yaml"))


@pytest.fixture(autouse=True)
def _given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SOURCE, SECRET)


def test_the_program_has_it_and_nothing_that_is_stored(tmp_path: Path) -> None:
    made = with_secret(tmp_path)
    measurement = backend_in(tmp_path, made).run(TRIAL)
    assert measurement.metrics["runtime_s"] == 1.005
    raw = json.loads(measurement.raw or "")
    spelled = json.dumps(SECRET)
    for text in (measurement.raw or "", *raw["report"]["words"], raw["output"], made.model_dump_json()):
        assert SECRET not in text
        assert spelled[1:-1] not in text
    assert raw["output"].startswith(f'secret {IN_PLACE} "{IN_PLACE}"\n')
    assert raw["errors"] == f"secret {IN_PLACE}\n"
    assert "env" not in raw["report"]["words"], "arguments are everybody's to read"


def test_a_failure_is_told_without_it(tmp_path: Path) -> None:
    made = with_secret(tmp_path, "print('no way with', secret, file=sys.stderr); sys.exit(7)")
    measurement = attempt(backend_in(tmp_path, made), TRIAL)
    assert measurement.status is Status.CRASHED
    assert f"no way with {IN_PLACE}" in (measurement.error or "")
    assert SECRET not in f"{measurement}"


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (None, "is not set where tiertune runs; export it there before"),
        ("", "is not set where tiertune runs; export it there before"),
        ("hunter2", "has less than 8 characters, which cannot be told from what programs print;"),
    ],
)
def test_one_that_is_not_there_ends_a_campaign_before_its_first_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str | None, says: str
) -> None:
    made = with_secret(tmp_path)
    if value is None:
        monkeypatch.delenv(SOURCE)
    else:
        monkeypatch.setenv(SOURCE, value)
    with pytest.raises(InputError) as caught:
        backend_in(tmp_path, made).prepare(SCENARIO, lambda sentence: None)
    told = str(caught.value)
    assert f"workload tiny: secret_environment.DB_PASSWORD: the variable {SOURCE} {says}" in told
    assert not value or value not in told


def test_hidden_are_lines_as_well_and_the_longest_first() -> None:
    secrets = Secrets({"KEY": "first line of it\n--\nsecond line of it", "A": "12345678", "B": "1234567890"})
    assert secrets.hidden("second line of it -- 1234567890") == f"{IN_PLACE} -- {IN_PLACE}"
    ended = Ended(0, False, "12345678", "fine", 1.0)
    assert (secrets.without(ended).output, secrets.without(ended).errors) == (IN_PLACE, "fine")
    assert "12345678" not in f"{secrets!r}"


class _Trials(Plays):
    """Plays that keep the variables of trials."""

    given: dict[str, object]

    def __call__(self, *words: object, **named: object) -> _Trials:
        self.given = dict(words[4]) if len(words) > 4 else {}  # type: ignore[call-overload]
        super().__call__(*words, **named)  # type: ignore[arg-type]
        return self

    def run(self) -> Played:
        said = {**RIGHT, "output": f"took 5 s {SECRET}\n", "returncode": 0, "wall_s": 1.0}
        return super().run() if self._name == "facts.yml" else Played(results={"a": said})


def fleet_of(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[fleet.FleetBackend, _Trials]:
    plays = _Trials({"a": RIGHT})
    monkeypatch.setattr(fleet, "Play", plays)
    monkeypatch.setattr(fleet, "traits", lambda facts, fast, slow: {})
    (folder / "tiny.yaml").write_text(TINY + HOST + NAMED)
    made = load_workload(str(folder / "tiny.yaml"))
    inner = SimBackend(folder / "profiles", lambda name: made)
    return fleet.FleetBackend(inner, folder, [Host("a")], {SCENARIO.key: made}, lambda sentence: None), plays


def test_hosts_of_a_fleet_are_given_it_beside_those_of_the_inventory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend, plays = fleet_of(tmp_path, monkeypatch)
    measurement = backend.run(TRIAL)
    assert plays.given["trial_secrets_of_workload"] == {"DB_PASSWORD": SECRET}
    assert SECRET not in f"{plays.given['trial_command']} {plays.given['trial_files']} {measurement}"
    assert json.loads(measurement.raw or "")["output"] == f"took 5 s {IN_PLACE}\n"


def test_what_ansible_would_take_for_an_expression_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend, _ = fleet_of(tmp_path, monkeypatch)
    monkeypatch.setenv(SOURCE, "a{{ lookup }}b")
    with pytest.raises(
        InputError, match=r"secret_environment\.DB_PASSWORD: the value holds \{\{, \{%"
    ) as caught:
        backend.prepare(SCENARIO, lambda sentence: None)
    assert "lookup" not in str(caught.value)


def test_simulated_workloads_have_none(tmp_path: Path) -> None:
    (tmp_path / "tiny.yaml").write_text(TINY)
    assert secrets_of(load_workload(str(tmp_path / "tiny.yaml")), {}).variables == {}


@pytest.mark.parametrize("path", sorted(Path("tests/configs/bad").rglob("*secret*.expected")))
def test_a_secret_that_is_refused_is_not_repeated(path: Path) -> None:
    assert "hunter2" not in path.read_text(encoding="utf-8")


def test_a_journal_that_has_one_in_the_clear_is_still_read(tmp_path: Path) -> None:
    """Versions took them; what is read of the journal has none."""
    document = workload(tmp_path).model_dump(mode="json")
    document["host"]["environment"] = {"DB_PASSWORD": SECRET, "LC_ALL": "C"}
    part = stored_workload(document).host
    assert part is not None
    assert part.environment == {"LC_ALL": "C"}
