"""What is wrong with a file, one sentence per mistake."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from tiertune.document import Document, Path, dotted, shortened
from tiertune.nearest import nearest


class InputError(Exception):
    """Something a person wrote is wrong. `sentences` says what, one mistake each; the command exits with 2."""

    exit_code = 2

    def __init__(self, *sentences: str) -> None:
        super().__init__("\n".join(sentences))
        self.sentences = sentences


class Strict(BaseModel):
    """Base of everything that is read from files: unknown keys are refused, nothing changes afterwards."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    def mistakes(self) -> Iterator[tuple[Path, str]]:
        """Rules between keys: where (relative to this model) and what, for every one that is broken."""
        return iter(())

    @model_validator(mode="after")
    def _rules_hold(self) -> Strict:
        broken = list(self.mistakes())
        if broken:
            text = "; ".join(f"{dotted(path)}: {sentence}" for path, sentence in broken)
            raise PydanticCustomError("rules", "{text}", {"text": text, "broken": broken})
        return self


def sentence(text: str) -> PydanticCustomError:
    """For field validators: an error whose text follows the offending value (`'5x' is not a size`)."""
    return PydanticCustomError("sentence", "{text}", {"text": text})


def sentences_of(error: ValidationError, model: type[BaseModel], file: str, document: Document) -> list[str]:
    """One sentence per mistake in `error`, with file, line, key, value and the nearest valid choice."""
    schema = model.model_json_schema()
    found: list[tuple[Path, str]] = []
    for details in error.errors(include_url=False):
        found.extend(_explained(details, schema, document.data))
    found.sort(key=lambda item: document.line(item[0]))
    return [f"{file}:{document.line(path)}: {text}" for path, text in found]


def rule_sentence(file: str, document: Document, path: Path, text: str) -> str:
    """The sentence for a broken rule at `path`; `text` follows the key."""
    return f"{file}:{document.line(path)}: {_ruled(path, text)}"


def shown(value: object) -> str:
    """`value` as a file would spell it, short enough for a sentence."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list"
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    return shortened(f"'{value}'" if isinstance(value, str) else f"{value}")


def _explained(details: ErrorDetails, schema: dict[str, Any], data: Any) -> Iterator[tuple[Path, str]]:
    kind, value, context = details["type"], details["input"], details.get("ctx", {})
    path, around, here = _located(details["loc"], schema, data)
    key = dotted(path) or "the file"
    if kind == "rules":
        for inner, text in context["broken"]:
            yield (*path, *inner), _ruled((*path, *inner), text)
    elif kind == "missing":
        yield path, f"{key} is missing: {here.get('description', 'a required key')}"
    elif kind == "union_tag_not_found":
        tag = context["discriminator"].strip("'")
        yield path, f"{dotted((*path, tag))} is missing: one of {', '.join(_tags(here))}"
    elif kind == "union_tag_invalid":
        tag = context["discriminator"].strip("'")
        text = _choice(context["tag"], _tags(here))
        yield (*path, tag), f"{dotted((*path, tag))}: {text}"
    elif kind == "extra_forbidden":
        near = nearest(str(path[-1]), around.get("properties", {}))
        hint = f"did you mean '{near}'?" if near else "this place takes no keys yet"
        yield path, f"{key} is an unknown key; {hint}"
    elif kind == "sentence":
        yield path, f"{key}: {shown(value)} {context['text']}"
    elif kind in ("literal_error", "enum"):
        choices = [str(choice) for choice in here.get("enum", [here.get("const", "")])]
        yield path, f"{key}: {_choice(value, choices)}"
    elif kind in ("greater_than_equal", "less_than_equal"):
        bound = context["ge"] if kind == "greater_than_equal" else context["le"]
        relation = "below" if kind == "greater_than_equal" else "above"
        end = "smallest" if kind == "greater_than_equal" else "largest"
        yield path, f"{key}: {shown(value)} is {relation} the {end} valid value, {shown(bound)}"
    elif kind in ("too_short", "too_long"):
        bound = context["min_length"] if kind == "too_short" else context["max_length"]
        relation = "at least" if kind == "too_short" else "at most"
        yield path, f"{key} has {context['actual_length']} entries; it takes {relation} {bound}"
    elif kind in _EXPECTED:
        yield path, f"{key}: {shown(value)} is not {_EXPECTED[kind]}{_suggestion(kind, value)}"
    else:
        yield path, f"{key}: {shown(value)}: {details['msg'].lower()}"


def _ruled(path: Path, text: str) -> str:
    # A text that goes on from the key ("is missing", "has 3 entries") needs no colon after it.
    verb = text.split(" ", 1)[0] in ("is", "has", "needs", "holds", "never", "cannot")
    return f"{dotted(path)}{' ' if verb else ': '}{text}" if path else text


_EXPECTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "text",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a mapping of keys to values",
    "model_type": "a mapping of keys to values",
    "model_attributes_type": "a mapping of keys to values",
}


def _suggestion(kind: str, value: object) -> str:
    """The nearest thing of the right type, where there is one."""
    if kind in ("int_type", "float_type", "int_from_float"):
        try:
            number = float(str(value))
        except ValueError:
            return ""
        whole = kind != "float_type" or number == round(number)
        return f"; the nearest valid value is {round(number) if whole else number}"
    if kind == "bool_type" and str(value).lower() in ("yes", "on", "1"):
        return "; the nearest valid value is true"
    if kind == "bool_type" and str(value).lower() in ("no", "off", "0"):
        return "; the nearest valid value is false"
    if kind == "string_type" and isinstance(value, (bool, int, float)):
        return f'; put it in quotes: "{shown(value)}"'
    return ""


def _choice(value: object, choices: list[str]) -> str:
    near = nearest(str(value), choices)
    if len(choices) == 1:
        return f"{shown(value)} is not valid; the only choice is '{near}'"
    return f"{shown(value)} is not one of {', '.join(choices)}; did you mean '{near}'?"


def _tags(schema: dict[str, Any]) -> list[str]:
    return list(schema.get("discriminator", {}).get("mapping", {}))


def _located(
    loc: tuple[int | str, ...], schema: dict[str, Any], data: Any
) -> tuple[Path, dict[str, Any], dict[str, Any]]:
    """Path in the file, and the schemas of what is around and at it.

    A validator's `loc` also names which member of a union it tried; that is no part of the file.
    """
    path: list[str | int] = []
    definitions = schema.get("$defs", {})
    around, here = schema, schema
    for position, part in enumerate(loc):
        last = position == len(loc) - 1
        if str(part) in _tags(here) and not (isinstance(data, dict) and part in data):
            here = _resolved({"$ref": here["discriminator"]["mapping"][str(part)]}, definitions)
            continue
        if isinstance(data, dict) and part in data:
            data = data[part]
        elif isinstance(data, list) and isinstance(part, int) and part < len(data):
            data = data[part]
        elif not last:
            continue
        path.append(part)
        around, here = here, _resolved(_child(here, part), definitions)
    return tuple(path), around, here


def _child(schema: dict[str, Any], part: int | str) -> dict[str, Any]:
    if isinstance(part, int):
        prefix = schema.get("prefixItems", [])
        child = prefix[part] if part < len(prefix) else schema.get("items", {})
    else:
        child = schema.get("properties", {}).get(part, schema.get("additionalProperties", {}))
    return child if isinstance(child, dict) else {}


def _resolved(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """`schema` with its reference followed and `or nothing` taken away; keeps the outermost description."""
    if "$ref" in schema:
        target = definitions[schema["$ref"].rpartition("/")[2]]
        return _resolved({**target, **{k: v for k, v in schema.items() if k != "$ref"}}, definitions)
    if "anyOf" in schema:
        kept = [option for option in schema["anyOf"] if option.get("type") != "null"]
        if len(kept) == 1:
            outer = {k: v for k, v in schema.items() if k != "anyOf"}
            return _resolved({**kept[0], **outer}, definitions)
    return schema
