"""docs/files.md, written from the schemas of the files people write."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.configs.corpus import ROOT
from tiertune.tuner.schemas import schema_for
from tiertune.units import format_size

Schema = dict[str, Any]

EXAMPLES = {
    "campaign": "campaigns/demo.yaml",
    "workload": "workloads/gups.yaml",
    "machine": "machines/icx-pmem.yaml",
    "space": "tests/configs/good/space/full.yaml",
    "suite": "suites/nightly.yaml",
    "sweep": "sweeps/all-systems.yaml",
    "claims": "tests/configs/good/claims/minimal.yaml",
    "gallery": "tests/configs/good/gallery/minimal.yaml",
}

HEAD = """\
# Files

What the files that people write may hold. This page is made from the schemas that check them
(`make golden` rewrites it); `tiertune schema KIND` prints a schema for editors.

Sizes are written `64GiB`, `13.75MiB`, `96GB` or as a whole number of bytes. Names have lower-case letters,
digits, dots and single dashes or plus signs. A file is named in another one, or on the command line, by name
(looked for in the folder of its kind, first in the current directory, then among the packaged files) or by
path. A workload is named with one of its presets as `NAME@PRESET`, such as `gups@ci`: the same program at the
size that the preset gives, called `gups-ci` in results. `tiertune show WORKLOAD` lists presets with their
footprint.
"""


def reference() -> str:
    """The whole page as Markdown."""
    return "\n".join([HEAD, *(line for kind in EXAMPLES for line in _kind(kind))])


def _kind(kind: str) -> Iterator[str]:
    schema = schema_for(kind)
    example = (ROOT / EXAMPLES[kind]).read_text(encoding="utf-8")
    yield f"## {kind.capitalize()}\n\n{schema['description']}\n"
    yield f"```yaml\n{example}```\n"
    yield _table(schema)
    told: dict[str, list[Schema]] = {}
    for path, part in _parts(schema, schema, ""):
        place, condition, tag = path.partition(" with ")
        # One of several that also stand elsewhere: its key says where.
        if condition and any(part in parts for other, parts in told.items() if other != place):
            continue
        told.setdefault(place, []).append(part)
        heading = f"`{place}`{condition}{f'`{tag}`' if tag else ''}"
        yield f"### {kind}: {heading}\n\n{part['description']}\n"
        yield _table(part)


def _parts(root: Schema, owner: Schema, path: str) -> Iterator[tuple[str, Schema]]:
    """Every nested mapping with its place in the file, in the order of the file."""
    for key, declared in owner.get("properties", {}).items():
        for suffix, name in _references(declared):
            part = root["$defs"][name]
            place = f"{path}{key}{suffix}"
            yield place, part
            yield from _parts(root, part, f"{place.split(' ')[0]}.")


def _references(declared: Schema) -> Iterator[tuple[str, str]]:
    if "$ref" in declared:
        yield "", declared["$ref"].rsplit("/", 1)[1]
    if "items" in declared:
        yield from ((f"[]{suffix}", name) for suffix, name in _references(declared["items"]))
    if isinstance(declared.get("additionalProperties"), dict):
        yield from ((f".*{suffix}", name) for suffix, name in _references(declared["additionalProperties"]))
    if "discriminator" in declared:
        discriminator = declared["discriminator"]
        for word, target in discriminator["mapping"].items():
            yield f" with {discriminator['propertyName']}: {word}", target.rsplit("/", 1)[1]
    for choice in declared.get("anyOf", ()):
        yield from _references(choice)


def _table(owner: Schema) -> str:
    required = owner.get("required", ())
    rows = ["| key | value | if absent | meaning |", "|---|---|---|---|"]
    for key, declared in owner["properties"].items():
        absent = "required" if key in required else _default(declared)
        meaning = declared["description"].replace("|", "\\|")
        rows.append(f"| `{key}` | {_value(declared)} | {absent} | {meaning} |")
    return "\n".join([*rows, ""])


def _default(declared: Schema) -> str:
    default = declared.get("default")
    if default is None or default in ([], {}) or "$ref" in declared:
        return ""
    if _value(declared) == "size":
        return f"`{format_size(default)}`"
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def _value(declared: Schema) -> str:
    choices = [choice for choice in declared.get("anyOf", ()) if choice.get("type") != "null"]
    if any("KiB" in choice.get("pattern", "") for choice in choices):
        return "size"
    if choices:
        return _value(choices[0])
    if "const" in declared or "enum" in declared:
        return ", ".join(f"`{word}`" for word in declared.get("enum", [declared.get("const")]))
    if "$ref" in declared or "discriminator" in declared:
        return "mapping"
    if declared.get("examples"):
        return f"size or {', '.join(f'`{word}`' for word in declared['examples'])}"
    kind = declared["type"]
    if isinstance(kind, list):
        return "number, word, true or false"
    if kind == "array":
        return _list(declared)
    if kind in ("integer", "number"):
        return f"{'whole number' if kind == 'integer' else 'number'}{_range(declared)}"
    if kind == "object":
        return "mapping" if declared.get("maxProperties") != 0 else "empty mapping"
    return {"boolean": "true, false", "string": "fast:slow" if "pattern" in declared else "text"}[kind]


def _list(declared: Schema) -> str:
    inner = declared["items"]
    if "prefixItems" in inner:
        return f"list of pairs [{'; '.join(_value(entry) for entry in inner['prefixItems'])}]"
    one = _value(inner)
    if one in ("text", "mapping"):
        return f"list of {one}s"
    return f"list of {one.replace('number', 'numbers').replace('word', 'words')}"


def _range(declared: Schema) -> str:
    if "minimum" not in declared:
        return ""
    return f", {_spelled(declared['minimum'])} to {_spelled(declared['maximum'])}"


def _spelled(bound: float) -> str:
    """1000000 as 1e6, as people write it."""
    if bound == 2**53 - 1:
        return "2^53 - 1"
    mantissa, exponent = f"{bound:e}".split("e")
    if abs(bound) >= 1e6 and float(mantissa).is_integer():
        return f"{float(mantissa):g}e{int(exponent)}"
    return f"{bound:g}"
