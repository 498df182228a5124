"""The nearest valid choice to what somebody typed."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(given: str, choices: Iterable[str]) -> str:
    """The choice that looks most like `given`, ignoring case; `""` when there are no choices."""
    by_lower = {choice.lower(): choice for choice in choices}
    found = get_close_matches(given.lower(), by_lower, n=1, cutoff=0.0)
    return by_lower[found[0]] if found else ""
