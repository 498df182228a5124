"""A figure with its interval in words, as stored in documents of comparisons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def span_words(span: Mapping[str, Any] | None) -> str:
    """`1.234 (1.211 to 1.301)`; says where there is no figure, or no interval."""
    if span is None:
        return "not measured"
    if span["low"] is None or span["high"] is None:
        return f"{span['value']:.3f}, too few values for an interval"
    return f"{span['value']:.3f} ({span['low']:.3f} to {span['high']:.3f})"
