"""The nearest valid choice to what somebody typed."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches


def nearest(given: str, choices: Iterable[str]) -> str:
    """The choice that looks most like `given`, ignoring case; `""` when there are no choices."""
    by_lower = {choice.lower(): choice for choice in choices}
    found = get_close_matches(given.lower(), by_lower, n=1, cutoff=0.0)
    return by_lower[found[0]] if found else ""


def alike(given: str, choice: str) -> float:
    """How much two words look alike, 0 to 1, ignoring case."""
    return SequenceMatcher(None, given.lower(), choice.lower()).ratio()
