"""Which campaign a journal is of, and what is said when another one comes with the same name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from tiertune.files import InputError

if TYPE_CHECKING:
    from pydantic import BaseModel


class JournalError(InputError):
    """A journal that cannot be used as asked; the sentence says what to do. A user's mistake (exit code
    2)."""


class EmptyJournal(JournalError):
    """A journal that no campaign has begun in yet; the next one may."""


@dataclass(frozen=True)
class Claim:
    """The campaign of a journal. `generation` counts budget extensions; judgement trials are numbered by
    it."""

    identity: str
    name: str
    document: dict[str, Any]
    lag: int
    generation: int
    created_at: str


def codes_of(claim: Claim) -> list[str]:
    """Digests of the policies written in Python that the campaign tunes."""
    return sorted({cell["code"] for cell in claim.document["cells"].values() if "code" in cell})


# Parts of a campaign document that options say. `upstream` is in it where trials run live, and only then.
PLACE = re.compile(r"campaign\.(live|container|by_kernel|upstream)\b.*")

# The default of a knob, which is the system's and in no file.
DEFAULT_OF_KNOB = re.compile(r"cells\..*\.default\.[a-z0-9_]+")

# Numbers of a campaign document that may grow: they add trials and change none that was made.
EXTENDABLE = ("campaign.budget.trials", "campaign.validation.seeds")


@dataclass(frozen=True)
class Change:
    """One difference between the stored campaign and the one at hand."""

    key: str
    before: Any
    after: Any

    @property
    def extends(self) -> bool:
        """Whether this is a number that may grow, growing."""
        numbers = isinstance(self.before, int) and isinstance(self.after, int)
        return self.key in EXTENDABLE and numbers and self.after > self.before

    def __str__(self) -> str:
        return f"{self.key}: {_shown(self.before)} -> {_shown(self.after)}"


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Change]:
    """Every leaf that differs, by dotted key."""
    flat_before, flat_after = dict(_leaves(before)), dict(_leaves(after))
    keys = [*flat_before, *(key for key in flat_after if key not in flat_before)]
    pairs = [Change(key, flat_before.get(key), flat_after.get(key)) for key in keys]
    return [change for change in pairs if change.before != change.after]


def settings_changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Change]:
    """The differences that somebody made. What only one of two versions of tiertune knows, and has as it is
    where nobody says otherwise, is none: a campaign goes on with a version that has a knob or a key more."""
    return [change for change in differences(before, after) if not _of_versions(change)]


def _of_versions(change: Change) -> bool:
    """Whether the versions differ and not what they were given."""
    if change.before is not None and change.after is not None:
        return False
    if DEFAULT_OF_KNOB.fullmatch(change.key):
        return True
    part, _, name = change.key.rpartition(".")
    value = change.after if change.before is None else change.before
    return any(
        f".{block}." in f"{part}." and value in defaults.get(name, ())
        for block, defaults in _defaults_of_files().items()
    )


@cache
def _defaults_of_files() -> dict[str, dict[str, list[Any]]]:
    """What keys of workloads and machines are where a file does not say, by key; the same key may be in
    several parts of a file."""
    from tiertune.machines.definition import Machine
    from tiertune.workloads.definition import Workload

    return {"workload": _defaults_of(Workload), "machine": _defaults_of(Machine)}


def _defaults_of(model: type[BaseModel]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for part in sorted(_parts(model, set()), key=lambda one: one.__name__):
        for name, field in part.model_fields.items():
            if not field.is_required() and field.default_factory is None and field.default is not None:
                found.setdefault(name, []).append(field.default)
    return found


def _parts(model: type[BaseModel], seen: set[type[BaseModel]]) -> set[type[BaseModel]]:
    """A model and all that its fields hold."""
    if model not in seen:
        seen.add(model)
        for field in model.model_fields.values():
            for held in _held(field.annotation):
                _parts(held, seen)
    return seen


def _held(annotation: Any) -> Iterator[type[BaseModel]]:
    from pydantic import BaseModel

    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _held(argument)


def _leaves(document: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(document, Mapping) and document:
        if key.endswith(".space.knobs"):
            # A knob that is searched over all of its range says nothing but its name.
            yield f"{key} (names)", " ".join(sorted(document))
        for name in sorted(document):
            yield from _leaves(document[name], f"{key}.{name}" if key else str(name))
    elif isinstance(document, list | tuple) and document:
        for index, entry in enumerate(document):
            yield from _leaves(entry, f"{key}[{index}]")
    else:
        yield key, document


def refusal(path: Path, name: str, changes: list[Change], extend: bool) -> str:
    """Why a changed campaign may not go on in this journal, and what to do."""
    shown = "; ".join(str(change) for change in changes[:6])
    more = f"; and {len(changes) - 6} more" if len(changes) > 6 else ""
    if all(change.extends for change in changes):
        advice = (
            "add --extend to go on with the larger budget, or --name OTHER to start a campaign of its own"
        )
    elif extend:
        numbers = " and ".join(EXTENDABLE)
        advice = f"--extend only raises {numbers}; use --name OTHER to start a campaign of its own"
    else:
        undone = _place_advice(changes) or "undo that"
        advice = f"{undone}, or use `tiertune tune` with --name OTHER to start a campaign of its own"
    return f"{path}: campaign {name} was started with other settings ({shown}{more}): {advice}"


def _place_advice(changes: list[Change]) -> str | None:
    """Which options have trials run where they did; None where something else differs, too."""
    placed = [(PLACE.fullmatch(change.key), change) for change in changes]
    if not all(place and None in (change.before, change.after) for place, change in placed):
        return None
    if not any(place and place[1] != "upstream" for place, _ in placed):
        return None  # what was published is called otherwise now
    missing = {place[1]: change.before for place, change in placed if place and change.after is None}
    added = {place[1]: change.after for place, change in placed if place and change.before is None}
    told = [f"add {_options(missing)}"] if missing else []
    told += [f"leave out {_options(added)}"] if added else []
    return f"{' and '.join(told)}, as it was started"


def _options(places: Mapping[str, Any]) -> str:
    options = ["--container"] if "container" in places else []
    if "live" in places and not options:
        by_this_host = "by_kernel" in places or "upstream" in places
        options = ["--here" if by_this_host else "--here, --hosts or --container"]
    options += [f"--by-kernel {places['by_kernel']}"] if "by_kernel" in places else []
    return " and ".join(options)


def _shown(value: Any) -> str:
    return "nothing" if value is None else json.dumps(value)
