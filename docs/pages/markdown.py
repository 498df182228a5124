"""Markdown from values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; cells are Markdown already, but for the bars that would end them."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join("| " + " | ".join(_cell(cell) for cell in line) + " |\n" for line in lines)


def code(value: object) -> str:
    """`value` as code, empty where it is empty."""
    return f"`{value}`" if str(value) else ""


def points(pairs: Iterable[tuple[str, str]]) -> str:
    """A list of names with what there is to say of each."""
    return "".join(f"- **{name}**: {text}\n" for name, text in pairs)


def plain(text: str) -> str:
    """Words that mean nothing to Markdown; what stands in backticks stays code."""
    spans = re.split(r"(`[^`]+`)", text)
    return "".join(span if span.startswith("`") and len(span) > 2 else _escaped(span) for span in spans)


def _escaped(text: str) -> str:
    return "".join(f"\\{letter}" if letter in "\\`*_[]<>#" else letter for letter in text)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
