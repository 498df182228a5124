"""What is wrong with a file, one sentence per mistake."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from tiertune.document import Document, Path, dotted, shortened
from tiertune.nearest import alike, nearest


class InputError(Exception):
    """Something a person wrote is wrong. `sentences` says what, one mistake each; commands exit with 2."""

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


@cache
def _schema(model: type[BaseModel]) -> dict[str, Any]:
    """What the model asks for, which is only read here. Making it takes 6 to 90 ms."""
    return model.model_json_schema()


def sentences_of(error: ValidationError, model: type[BaseModel], file: str, document: Document) -> list[str]:
    """One sentence per mistake in `error`, with file, line, key, value and the nearest valid choice."""
    schema = _schema(model)
    found: list[tuple[Path, str]] = []
    for details in error.errors(include_url=False):
        found.extend(_explained(details, schema, document.data))
    # A key with a typing error in it is unknown and also missing: that is one mistake.
    meant = {(*path[:-1], text.split("'")[1]) for path, text in found if text.endswith("'?")}
    found = [item for item in found if not (item[0] in meant and " is missing: " in item[1])]
    found.sort(key=lambda item: document.line(item[0]))
    return [f"{file}:{document.line(path)}: {text}" for path, text in found]


def explained(error: ValidationError, model: type[BaseModel], data: Any) -> list[tuple[Path, str]]:
    """Where (relative to `model`) and what, for every mistake of `data`: as `Strict.mistakes` tells them."""
    schema = _schema(model)
    found: list[tuple[Path, str]] = []
    for details in error.errors(include_url=False):
        if details["type"] == "rules":
            path, _, _ = _located(details["loc"], schema, data)
            found += [((*path, *inner), text) for inner, text in details["ctx"]["broken"]]
        else:
            for path, text in _explained(details, schema, data):
                found.append((path, text.removeprefix(dotted(path)).removeprefix(":").lstrip()))
    return found


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
    if isinstance(value, float) and value == round(value) and abs(value) < 1e15:
        return f"{value:.0f}"
    return shortened(f"'{value}'" if isinstance(value, str) else f"{value}")


def _explained(details: ErrorDetails, schema: dict[str, Any], data: Any) -> Iterator[tuple[Path, str]]:
    kind, value, context = details["type"], details["input"], details.get("ctx", {})
    path, around, here = _located(details["loc"], schema, data)
    key = dotted(path) or "the file"
    if kind == "rules":
        for inner, text in context["broken"]:
            yield (*path, *inner), _ruled((*path, *inner), text)
    elif kind == "sentence":
        yield path, f"{key}: {shown(value)} {context['text']}"
    elif kind == "missing":
        yield path, f"{key} is missing: {here.get('description', 'a required key')}"
    elif kind == "union_tag_not_found":
        tag = context["discriminator"].strip("'")
        yield path, f"{dotted((*path, tag))} is missing: one of {', '.join(_tags(here))}"
    elif kind == "union_tag_invalid":
        tag = context["discriminator"].strip("'")
        yield (*path, tag), f"{dotted((*path, tag))}: {_choice(context['tag'], _tags(here))}"
    elif kind == "extra_forbidden":
        yield path, f"{key} is an unknown key; {_key_hint(path, around, data)}"
    elif kind == "literal_error":
        choices = [str(choice) for choice in here.get("enum", [here.get("const", "")])]
        yield path, f"{key}: {_choice(value, choices)}"
    elif kind in ("greater_than_equal", "less_than_equal"):
        bound = context["ge"] if kind == "greater_than_equal" else context["le"]
        relation = "below the smallest" if kind == "greater_than_equal" else "above the largest"
        yield path, f"{key}: {shown(value)} is {relation} valid value, {shown(bound)}"
    elif kind in ("too_short", "too_long"):
        yield path, f"{key} {_length(value, context, kind)}"
    elif value is None or (kind == "string_too_short" and not value):
        yield path, f"{key} is empty; it takes {_EXPECTED.get(kind, 'text')}{_suggestion(kind, value, here)}"
    elif kind in _EXPECTED:
        yield path, f"{key}: {shown(value)} is not {_EXPECTED[kind]}{_suggestion(kind, value, here)}"
    else:
        yield path, f"{key}: {shown(value)}: {details['msg'].lower()}"


def _ruled(path: Path, text: str) -> str:
    # A text that goes on from the key ("is missing", "has 3 entries") needs no colon after it.
    verbs = ("is", "has", "takes", "needs", "holds", "never", "cannot", "does", "only", "leaves")
    return f"{dotted(path)}{' ' if text.split(' ', 1)[0] in verbs else ': '}{text}" if path else text


def _key_hint(path: Path, around: dict[str, Any], data: Any) -> str:
    """The nearest key that is not there yet, or all of them when none is near."""
    for part in path[:-1]:
        data = data[part]
    free = [key for key in around.get("properties", {}) if key not in data]
    near = nearest(str(path[-1]), free)
    if not near:
        return "all keys of this place are there already"
    if alike(str(path[-1]), near) < 0.5:
        return f"what can still stand here: {', '.join(free)}"
    return f"did you mean '{near}'?"


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

_LEADING_NUMBER = re.compile(r"[-+]?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?")


def _suggestion(kind: str, value: object, schema: dict[str, Any]) -> str:
    """What it takes, or the nearest thing of the right type, where there is one."""
    if kind in ("int_type", "int_from_float", "float_type"):
        leading = _LEADING_NUMBER.match(value) if isinstance(value, str) else None
        number = value if isinstance(value, float) else float(leading[0]) if leading else None
        if number is not None:
            near = min(max(number, schema.get("minimum", number)), schema.get("maximum", number))
            return f"; the nearest valid value is {shown(round(near) if kind != 'float_type' else near)}"
        if "minimum" in schema and "maximum" in schema:
            return f"; it takes {shown(schema['minimum'])} to {shown(schema['maximum'])}"
    if kind == "bool_type" and str(value).lower() in ("yes", "on", "1"):
        return "; the nearest valid value is true"
    if kind == "bool_type" and str(value).lower() in ("no", "off", "0"):
        return "; the nearest valid value is false"
    if kind == "string_type" and isinstance(value, (bool, int, float)):
        return f'; put it in quotes: "{shown(value)}"'
    if kind in ("model_type", "model_attributes_type") and "properties" in schema:
        return f"; the keys here are {', '.join(schema['properties'])}"
    if kind in ("list_type", "tuple_type") and isinstance(value, dict):
        return "; start each entry with '- '"
    return ""


def _length(value: object, context: dict[str, Any], kind: str) -> str:
    bound = context["min_length"] if kind == "too_short" else context["max_length"]
    if bound == 0:
        return "takes no keys yet; leave it out"
    length = len(value) if isinstance(value, (list, dict, tuple)) else context["actual_length"]
    entries = "1 entry" if length == 1 else f"{length} entries"
    return f"has {entries}; it takes at {'least' if kind == 'too_short' else 'most'} {bound}"


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
        if part == "[key]":
            continue  # a mapping's key is what is wrong, and named already
        if str(part) in _tags(here) and not _has(data, part):
            here = _resolved({"$ref": here["discriminator"]["mapping"][str(part)]}, definitions)
            continue
        if _has(data, part):
            data = data[part]
        elif not last:
            continue
        elif "anyOf" in here:
            here = _member(here, str(part))
            continue
        path.append(part)
        around, here = here, _resolved(_child(here, part), definitions)
    return tuple(path), around, here


def _member(union: dict[str, Any], name: str) -> dict[str, Any]:
    """The schema of the member that a validator calls `name`, such as `literal['a','b']`."""
    words = name.startswith("literal[")
    found = (one for one in union["anyOf"] if ("const" in one or "enum" in one) == words)
    return next(found, union)


def _has(data: Any, part: int | str) -> bool:
    if isinstance(data, list):
        return isinstance(part, int) and part < len(data)
    return isinstance(data, dict) and part in data


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
