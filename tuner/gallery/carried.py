"""What transfer tests measured of carrying tuned configurations from one context to another."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from pydantic import BaseModel, Field, ValidationError

from tiertune.files import InputError
from tiertune.tuner.gallery.definition import MadeBy, Pair, Part, TransferTest
from tiertune.tuner.gallery.staleness import CODE_DIGITS
from tiertune.tuner.transfer.document import NOTHING

WORDS: tuple[Part, ...] = ("machine", "ratio", "threads", "pages", "contention")
DIGITS = 6


class _Features(BaseModel):
    program: str


class _Native(BaseModel):
    ratio: float | None


class _Context(BaseModel):
    number: int
    workload: str
    machine: str
    ratio: str
    threads: str
    pages: str
    contention: str
    features: _Features
    native: _Native

    @property
    def told(self) -> str:
        return " ".join([self.workload, *(getattr(self, word) for word in WORDS)])


class _Cell(BaseModel):
    origin: int = Field(alias="from")
    to: int
    status: str
    ratio: float | None
    high: float | None


class _Seeds(BaseModel):
    judgement: int


class _Study(BaseModel):
    system: str
    space: str
    seeds: _Seeds
    contexts: list[_Context]
    matrix: list[_Cell]


class _Versions(BaseModel):
    tiertune: str
    engine: str
    build: str
    policies: dict[str, str] = {}


class _File(BaseModel):
    campaigns: list[str]
    studies: list[_Study]
    versions: _Versions | None = None


def tests_in(results: Path, system: str, spaces: Iterable[str], policies: str) -> list[TransferTest]:
    """The transfer tests of a system in a results folder. `policies` are words for the command that runs a
    policy written in Python again. Raises `InputError` for a file that is none."""
    wanted, found = set(spaces), []
    for path in sorted(results.glob("*/transfer/transfer.json")):
        document = _read(path)
        for study in document.studies:
            if study.system == system and study.space in wanted:
                found.append(_test(study, document, policies))
    return found


def _read(path: Path) -> _File:
    try:
        return _File.model_validate(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, ValidationError) as error:
        name = path.parent.parent.name
        raise InputError(
            f"{path}: not as `tiertune transfer` writes it; delete it, or write it again:"
            f" tiertune transfer {name.replace('+', ' ')}"
        ) from error


def _test(study: _Study, document: _File, policies: str) -> TransferTest:
    by_number = {context.number: context for context in study.contexts}
    pairs = [
        _pair(cell, by_number[cell.origin], by_number[cell.to])
        for cell in study.matrix
        if cell.origin != cell.to and cell.status != NOTHING
    ]
    versions = document.versions
    code = versions.policies.get(study.system) if versions else None
    return TransferTest(
        space=study.space,
        seeds=study.seeds.judgement,
        contexts=[context.told for context in study.contexts],
        pairs=[pair for pair in pairs if pair.differs],
        made_by=MadeBy(
            tiertune=versions.tiertune if versions else "unknown",
            engine=versions.engine if versions else "unknown",
            builds=[versions.build] if versions else [],
            code=None if code is None else code[:CODE_DIGITS],
            command=f"tiertune transfer {' '.join(document.campaigns)}{policies if code else ''}",
        ),
    )


def _pair(cell: _Cell, origin: _Context, to: _Context) -> Pair:
    differs: list[Part] = [word for word in WORDS if getattr(origin, word) != getattr(to, word)]
    if origin.features.program != to.features.program:
        differs.insert(0, "program")
    elif origin.workload != to.workload:
        differs.insert(0, "input")
    native = to.native.ratio
    return Pair(
        tuned_in=origin.number,
        run_in=to.number,
        differs=differs,
        ratio=None if cell.ratio is None else round(cell.ratio, DIGITS),
        worse=cell.high is not None and cell.high < 1.0,
        kept=None if cell.ratio is None or not native else round(cell.ratio / native, DIGITS),
    )
