"""The files people write: where they are, how they are read, and what is said when one is wrong."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from tiertune.document import Path as Place
from tiertune.document import SyntaxProblem, parse
from tiertune.mistakes import InputError, Strict, rule_sentence, sentence, sentences_of, shown
from tiertune.nearest import nearest

__all__ = ["FileMistakes", "InputError", "Strict", "find", "lasting", "load", "names", "sentence", "shown"]

Model = TypeVar("Model", bound=BaseModel)

KINDS = {
    "campaigns": "campaign",
    "claims": "claims",
    "gallery": "gallery",
    "machines": "machine",
    "spaces": "space",
    "suites": "suite",
    "sweeps": "sweep",
    "workloads": "workload",
}
"""Folder of each kind of file, and what one of them is called."""

MAX_FILE_BYTES = 4 * 2**20


class FileMistakes(InputError):
    """What is wrong with the keys and values of `file`, which holds `data` and should be a `model`."""

    def __init__(self, file: str, model: type[BaseModel], data: dict[str, Any], sentences: list[str]) -> None:
        super().__init__(*sentences)
        self.file, self.model, self.data = file, model, data


PACKAGED = Path(__file__).resolve().parent


def names(folder: str) -> list[str]:
    """Names that `find` knows: the user's own files first in rank, packaged ones too; sorted."""
    return sorted({file.stem for place in _places(folder) for file in place.glob("*.yaml")})


def find(folder: str, name_or_path: str, base: Path | None = None) -> Path:
    """The file called `name_or_path`, of the kind that lives in `folder`.

    A name (`icx-pmem`) is looked for in `./<folder>` and then among the packaged files. Anything with a `/`
    or an ending is a path, relative to `base` (the folder of the file that names it) or else to the current
    directory. Raises `InputError` with the nearest existing name.
    """
    kind = KINDS[folder]
    endings = (".yaml", ".yml", ".parquet") if folder == "workloads" else (".yaml", ".yml")
    if "/" in name_or_path or name_or_path.endswith(endings):
        paths = [Path(base, name_or_path), Path(name_or_path)] if base is not None else [Path(name_or_path)]
        for path in paths:
            if path.is_file():
                return Path(os.path.normpath(path))
            if path.is_dir():
                raise InputError(f"{path}: this is a folder, not a {kind} file")
        siblings = [file.name for file in paths[0].parent.glob("*.yaml")]
        near = nearest(paths[0].name, siblings)
        hint = f"the nearest file there is '{near}'" if near else f"{paths[0].parent} holds no YAML files"
        raise InputError(f"{name_or_path}: there is no such {kind} file; {hint}")
    for place in _places(folder):
        path = place / f"{name_or_path}.yaml"
        if path.is_file():
            return path
    near = nearest(name_or_path, names(folder))
    hint = f"did you mean '{near}'?" if near else f"there are no {folder}"
    raise InputError(f"there is no {kind} '{name_or_path}'; {hint}")


def lasting(folder: str, name_or_path: str, base: Path | None = None) -> str:
    """`name_or_path` in words that mean the same file from anywhere: a name stays, a path becomes absolute.

    Raises `InputError` as `find` does.
    """
    path = find(folder, name_or_path, base)
    return name_or_path if path.stem == name_or_path else str(path.resolve())


def load(
    model: type[Model], path: Path, outside: Callable[[Model], Iterable[tuple[Place, str]]] | None = None
) -> Model:
    """Reads `path` and checks it against `model`; raises `InputError` with one sentence per mistake.

    `outside` checks a model that is right in itself against everything else: other files, the engine's
    tables. It yields where and what, like `Strict.mistakes`.
    """
    file = str(path)
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise InputError(f"{file}: larger than {MAX_FILE_BYTES >> 20} MiB; this is not a settings file")
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{file}: not text in UTF-8 (byte {error.start} does not fit)") from error
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from error
    try:
        document = parse(text)
    except SyntaxProblem as problem:
        raise InputError(f"{file}:{problem.line}: {problem.sentence}") from problem
    if document.data is None:
        required = [key for key, field in model.model_fields.items() if field.is_required()]
        raise InputError(f"{file}:1: the file is empty; it needs the keys {', '.join(required)}")
    if not isinstance(document.data, dict):
        what = shown(document.data)
        raise InputError(
            f"{file}:{document.line(())}: the file holds {what} where keys with values are expected"
        )
    try:
        loaded = model.model_validate(document.data)
    except ValidationError as error:
        raise FileMistakes(file, model, document.data, sentences_of(error, model, file, document)) from error
    broken = sorted(outside(loaded) if outside else (), key=lambda found: document.line(found[0]))
    if broken:
        raise InputError(*(rule_sentence(file, document, place, text) for place, text in broken))
    return loaded


def _places(folder: str) -> list[Path]:
    return [Path(folder), PACKAGED / folder]
