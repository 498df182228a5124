"""YAML as files use it: YAML 1.2 scalars, lines of keys, and no surprises."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from tiertune.document import SyntaxProblem, dotted, parse


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e9", 10**9),
        ("1E3", 1000),
        ("1e-3", 0.001),
        ("1.0", 1.0),
        ("-5", -5),
        (".5", 0.5),
        ("1:8", "1:8"),
        ("12:30:45", "12:30:45"),
        ("no", "no"),
        ("on", "on"),
        ("true", True),
        ("False", False),
        ("~", None),
        ("null", None),
        ("'7'", "7"),
        ('"true"', "true"),
        ("2026-01-02", "2026-01-02"),
        ("1_000", "1_000"),
        ("0x10", "0x10"),
        ("9223372036854775807", 2**63 - 1),
    ],
)
def test_scalars(text: str, value: object) -> None:
    read = parse(f"key: {text}").data["key"]
    assert read == value
    assert type(read) is type(value)


def test_every_key_and_entry_has_its_line() -> None:
    document = parse("a: 1\n\nb:\n  - x\n  - c: 2\n    d: 3\n")
    assert document.line(("b", 1, "d")) == 6
    assert document.line(("b", 1, "missing")) == 5
    assert document.line(("nowhere",)) == 1
    assert dotted(("b", 1, "d")) == "b[1].d"


@pytest.mark.parametrize(
    ("text", "line", "word"),
    [
        ("a: 1\na: 2", 2, "given twice"),
        ("a: {b: 1, b: 2}", 1, "given twice"),
        ("a: .inf", 1, "not a usable number"),
        ("a: 1e999999999", 1, "too large"),
        (f"a: {'9' * 10_000}", 1, "too large"),
        ("a: &x 1\nb: *x", 2, "alias of line 1"),
        ("a: &x [*x]", 1, "alias"),
        ("a: !!python/object/apply:os.system [ls]", 1, "tag !!python/object/apply:os.system"),
        ("[" * 100 + "]" * 100, 1, "levels of nesting"),
        ("[" * 5000, 1, ""),
        ("[" * 200_000 + "]" * 200_000, 1, "levels of nesting"),
        ("? [a, b]\n: 1", 1, "not a word"),
    ],
)
def test_refusals(text: str, line: int, word: str) -> None:
    with pytest.raises(SyntaxProblem) as caught:
        parse(text)
    assert caught.value.line == line
    assert word in caught.value.sentence


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused_in_words(text: str) -> None:
    said = _refusal(text)
    assert said is None or (said.sentence and said.line >= 1)


@pytest.mark.skipif(not yaml.__with_libyaml__, reason="PyYAML has been built without libyaml")
@given(st.text(alphabet="ab1 :-[]{},\n\t\r'\"#|>&*!?%@`~.=<\\é\ufeff\x85\u2028", max_size=20))
@example("a: |#b")
@example("a\n\ufeff: 1")
def test_a_text_means_the_same_without_libyaml(text: str) -> None:
    with_it = _read(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(yaml, "__with_libyaml__", False)
        assert _read(text) == with_it


def _read(text: str) -> tuple[object, ...]:
    try:
        document = parse(text)
    except SyntaxProblem as problem:
        return problem.line, problem.sentence
    return document.data, document.lines


def _refusal(text: str) -> SyntaxProblem | None:
    try:
        parse(text)
    except SyntaxProblem as problem:
        return problem
    return None


plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**62), 2**62) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(min_size=1, max_size=8), inner, max_size=4)
    ),
    max_leaves=20,
)


class Dumper(yaml.SafeDumper):
    """Quotes texts that are numbers in YAML 1.2 only, such as 1E3: PyYAML takes them for words."""

    def represent_text(self, text: str) -> yaml.ScalarNode:
        number = re.fullmatch(r"[-+]?[0-9.]+[eE][-+]?[0-9]+", text) is not None
        return self.represent_scalar("tag:yaml.org,2002:str", text, style="'" if number else None)


Dumper.add_representer(str, Dumper.represent_text)


@given(st.dictionaries(st.text(min_size=1, max_size=8), plain, max_size=5))
@example({"0": "1E100", "1E3": ["0E0", ".5e3"]})
def test_what_is_dumped_reads_back(data: dict[str, Any]) -> None:
    """Campaigns are kept as YAML beside their results; nothing may change on the way."""
    assert parse(yaml.dump(data, Dumper=Dumper)).data == data
