"""A file of one kind where a command takes another: which kind it is, and what takes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import BaseModel

TAKEN_BY = {
    "campaign": "`tiertune tune`",
    "claims": "`tiertune reproduce --claims`",
    "gallery": "`tiertune gallery --gallery-dir`, which names its folder",
    "machine": "--machine and the key machine of other files",
    "space": "the key space of a campaign's systems",
    "suite": "`tiertune nightly run`",
    "sweep": "`tiertune sweep`",
    "workload": "--workload and the key workload of other files",
}
"""What takes each kind of file, by the kinds of `tiertune schema`."""


def other_kind(error: BaseException) -> str:
    """What the refused file is, where its keys are those of another kind than the one wanted; else empty."""
    from tiertune.files import FileMistakes

    if not isinstance(error, FileMistakes) or _fits(error.model, error.data):
        return ""
    # Not before it is known to be such an error: models read the engine, which may be what is missing.
    from tiertune.tuner.schemas import MODELS

    kinds = [kind for kind, model in MODELS.items() if _fits(model, error.data)]
    if len(kinds) != 1:
        return ""
    wanted = next((kind for kind, model in MODELS.items() if model is error.model), "file of another kind")
    return f"{error.file}: a {wanted} is wanted; by its keys this is a {kinds[0]}, for {TAKEN_BY[kinds[0]]}"


def _fits(model: type[BaseModel], data: Mapping[str, Any]) -> bool:
    """Whether the outermost keys are those of `model`: none is unknown, none is missing."""
    fields = {field.alias or name: field for name, field in model.model_fields.items()}
    return data.keys() <= fields.keys() and all(
        name in data for name, field in fields.items() if field.is_required()
    )
