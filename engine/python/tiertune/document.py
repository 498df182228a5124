"""YAML text to plain data, with the line of every key.

Scalars follow YAML 1.2: `1e9` is a number, `1:8` is text (YAML 1.1 reads it as 68), `no` and `on` are text,
and dates stay text. What a settings file never needs and often holds by mistake is refused: duplicate keys,
aliases, tags, keys that are not text, infinities and NaN, numbers beyond 64 bits.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

import yaml

Path = tuple[str | int, ...]
"""Where in a document: mapping keys and list positions from the top."""

MAX_DEPTH = 30
MAX_INTEGER = 2**63 - 1
# 20 000 levels did no harm to libyaml's bindings, of 50 000 the stack ran over; no sensible file comes near.
_HARMLESS_DEPTH = 2_000
# Where libyaml takes what the other parser refuses or reads otherwise; a file means one thing everywhere.
_READ_APART = re.compile(r"[\t\ufeff?!]|[|>][-+0-9]*#|---")

_SCALAR_TAGS = {
    f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "timestamp", "value")
}
_NULL = re.compile(r"~|null|Null|NULL|")
_TRUE = re.compile(r"true|True|TRUE")
_FALSE = re.compile(r"false|False|FALSE")
_INTEGER = re.compile(r"[-+]?[0-9]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


class SyntaxProblem(Exception):
    """Text that is not the YAML that files use; `line` counts from 1."""

    def __init__(self, line: int, sentence: str) -> None:
        super().__init__(sentence)
        self.line = line
        self.sentence = sentence


@dataclass(frozen=True)
class Document:
    """Plain data (dict, list, str, int, float, bool, None) and the line, from 1, of every path in it."""

    data: Any
    lines: dict[Path, int]

    def line(self, path: Path) -> int:
        """Line of `path`, or of the closest thing around it that the file does have."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def parse(text: str) -> Document:
    """Reads one YAML document; raises `SyntaxProblem`."""
    try:
        nodes = _composed(text)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise SyntaxProblem(
            line, f"the character U+{int(error.character):04X} cannot stand in a file"
        ) from error
    except yaml.MarkedYAMLError as error:
        raise _in_words(error, text) from error
    except RecursionError as error:
        raise SyntaxProblem(1, f"more than {MAX_DEPTH} levels of nesting") from error
    if not nodes:
        return Document(None, {(): 1})
    if len(nodes) > 1:
        line = nodes[1].start_mark.line + 1
        raise SyntaxProblem(
            line, "a second document starts here; a file holds one, without '---' lines in it"
        )
    lines: dict[Path, int] = {(): nodes[0].start_mark.line + 1}
    return Document(_build(nodes[0], (), lines, set()), lines)


def _composed(text: str) -> list[yaml.Node]:
    """The documents in a text. libyaml takes a tenth of the time; of a refusal the other parser says more."""
    if yaml.__with_libyaml__:
        try:
            if not _READ_APART.search(text) and not _is_bottomless(text):
                return list(yaml.compose_all(text, Loader=yaml.CSafeLoader))
        except yaml.YAMLError:
            pass
    return list(yaml.compose_all(text, Loader=yaml.SafeLoader))


def _is_bottomless(text: str) -> bool:
    """Whether levels of nesting could exhaust the stack of libyaml's bindings, which ends the process."""
    if len(text) <= _HARMLESS_DEPTH:
        return False
    depth = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > _HARMLESS_DEPTH:
            return True
    return False


def _build(node: yaml.Node, path: Path, lines: dict[Path, int], seen: set[int]) -> Any:
    line = node.start_mark.line + 1
    if id(node) in seen:
        raise SyntaxProblem(
            lines.get(path, line), f"'{dotted(path)}' is an alias of line {line}; write the value out instead"
        )
    seen.add(id(node))
    if len(path) > MAX_DEPTH:
        raise SyntaxProblem(line, f"more than {MAX_DEPTH} levels of nesting")
    if isinstance(node, yaml.ScalarNode):
        return _scalar(node, path)
    if node.tag not in ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"):
        raise SyntaxProblem(line, _tagged(node, path))
    if isinstance(node, yaml.SequenceNode):
        items = []
        for position, item in enumerate(node.value):
            lines[*path, position] = item.start_mark.line + 1
            items.append(_build(item, (*path, position), lines, seen))
        return items
    assert isinstance(node, yaml.MappingNode)
    mapping: dict[str, Any] = {}
    for key_node, value_node in node.value:
        key = _key(key_node, path)
        if key in mapping:
            first = lines[*path, key]
            at = key_node.start_mark.line + 1
            raise SyntaxProblem(at, f"the key '{dotted((*path, key))}' is given twice, first on line {first}")
        lines[*path, key] = key_node.start_mark.line + 1
        mapping[key] = _build(value_node, (*path, key), lines, seen)
    return mapping


def _key(node: yaml.Node, path: Path) -> str:
    line = node.start_mark.line + 1
    where = f"in '{dotted(path)}'" if path else "at the top level"
    if not isinstance(node, yaml.ScalarNode):
        raise SyntaxProblem(line, f"a key {where} is not a word")
    if node.value == "<<" and not node.style:
        raise SyntaxProblem(line, f"the merge key '<<' {where} is not supported; write the keys out instead")
    return str(node.value)


def _scalar(node: yaml.ScalarNode, path: Path) -> Any:
    text, line = str(node.value), node.start_mark.line + 1
    if node.style:
        return text
    if node.tag not in _SCALAR_TAGS:
        raise SyntaxProblem(line, _tagged(node, path))
    if _NULL.fullmatch(text):
        return None
    if _TRUE.fullmatch(text):
        return True
    if _FALSE.fullmatch(text):
        return False
    if _NOT_FINITE.fullmatch(text):
        raise SyntaxProblem(line, f"{dotted(path)}: {text} is not a usable number; write a finite one")
    if not _FLOAT.fullmatch(text):
        return text
    whole = _INTEGER.fullmatch(text) is not None
    number = int(text) if whole and len(text) <= 20 else float(text)
    if abs(number) > MAX_INTEGER:
        raise SyntaxProblem(
            line,
            f"{dotted(path)}: {shortened(text)} is too large; the largest usable number is {MAX_INTEGER}",
        )
    if whole:
        return number
    # 1e9 means a whole number as much as 1000000000 does; 1.0 is written by people who mean a real one.
    return int(number) if "." not in text and number == math.floor(number) else number


def _tagged(node: yaml.Node, path: Path) -> str:
    tag = node.tag.replace("tag:yaml.org,2002:", "!!")
    return f"'{dotted(path)}' has the tag {shortened(tag)}; files use plain values without tags"


def dotted(path: Path) -> str:
    """`("tiers", 0, "read_gbps")` as `tiers[0].read_gbps`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def shortened(text: str) -> str:
    """`text` cut to what fits in a sentence."""
    return text if len(text) <= 60 else f"{text[:57]}..."


def _in_words(error: yaml.MarkedYAMLError, text: str) -> SyntaxProblem:
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark else 1
    problem = (error.problem or "").strip()
    source = text.splitlines()
    if "\\t" in problem or (line <= len(source) and source[line - 1].lstrip(" ").startswith("\t")):
        return SyntaxProblem(line, "a tab is used for indentation; use spaces")
    if problem == "found undefined alias" or "undefined alias" in problem:
        return SyntaxProblem(line, f"{problem}; write the value out instead (or quote it if the * is meant)")
    if problem.startswith("mapping values are not allowed"):
        return SyntaxProblem(
            line,
            "a ':' stands where no key can be; check the indentation above, or quote the text that holds it",
        )
    if problem.startswith("could not find expected ':'"):
        return SyntaxProblem(line, "a key without ':' before this line")
    opened = error.context_mark.line + 1 if error.context_mark else line
    if "quoted scalar" in (error.context or ""):
        return SyntaxProblem(opened, "the quote that opens on this line is not closed")
    if "flow" in (error.context or ""):
        return SyntaxProblem(opened, "the '{' or '[' that opens on this line is not closed as it should be")
    if "<block end>" in problem:
        return SyntaxProblem(line, "the indentation of this line does not fit the lines above")
    context = f" {error.context.strip()}" if error.context else ""
    return SyntaxProblem(line, f"not valid YAML: {problem}{context}")
