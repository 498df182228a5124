"""Licences of what is shipped or needed at run time, judged by requirements/licences.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from license_expression import AND, OR, ExpressionError, LicenseWithExceptionSymbol, Licensing

from tests.source_tree import ROOT

RULES = ROOT / "requirements/licences.toml"


class LicenceError(Exception):
    """What may not be shipped, one line each."""


@dataclass(frozen=True)
class Part:
    """A package or crate; `written` is all that its own metadata says of its licence, best first."""

    name: str
    version: str
    written: tuple[str, ...]
    sha256: str = ""
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rules:
    """The file of rules: SPDX names that are allowed, words for them, licences that were read, exceptions."""

    allowed: frozenset[str]
    words: Mapping[str, str]
    read: Mapping[str, str]
    exceptions: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def licence(self, part: Part) -> str:
        """The SPDX expression of a part; empty where nothing tells."""
        if part.name in self.read:
            return self.read[part.name]
        for text in part.written:
            words = " AND ".join(f"({self._spelled(word)})" for word in text.split(" && "))
            try:
                return str(licensing().parse(words)) if words != "()" else ""
            except ExpressionError:
                continue
        return ""

    def mistake(self, part: Part) -> str:
        """Why a part may not be shipped, in one line; empty where it may."""
        licence = self.licence(part)
        if not licence:
            said = "; ".join(part.written) or "nothing"
            return f"{part.name} {part.version}: no licence that is known ({said}); name it under [read]"
        exception = self.exceptions.get(part.name)
        if exception and exception["licence"] == licence:
            return ""
        if not _permitted(licensing().parse(licence), self.allowed):
            return f"{part.name} {part.version}: {licence} is not among those that are allowed"
        return ""

    def _spelled(self, word: str) -> str:
        return self.words.get(word, word)


@cache
def licensing() -> Licensing:
    """The parser of SPDX expressions."""
    return Licensing()


def rules(path: Path = RULES) -> Rules:
    """The rules as they are written. An exception without a reason is a KeyError."""
    document = tomllib.loads(path.read_text(encoding="utf-8"))
    exceptions = {
        name: {"licence": told["licence"], "reason": told["reason"]}
        for name, told in document.get("exceptions", {}).items()
    }
    return Rules(frozenset(document["allowed"]), document["words"], document["read"], exceptions)


def check(parts: Iterable[Part], by: Rules) -> None:
    """Raises LicenceError, which names every part that may not be shipped."""
    mistakes = [mistake for part in parts if (mistake := by.mistake(part))]
    if mistakes:
        raise LicenceError("\n".join(mistakes))


def _permitted(expression: object, allowed: frozenset[str]) -> bool:
    """Of an OR one side is enough, of an AND all are needed."""
    if isinstance(expression, OR):
        return any(_permitted(side, allowed) for side in expression.args)
    if isinstance(expression, AND):
        return all(_permitted(side, allowed) for side in expression.args)
    if isinstance(expression, LicenseWithExceptionSymbol):
        return f"{expression.license_symbol.key} WITH {expression.exception_symbol.key}" in allowed
    return str(expression) in allowed
