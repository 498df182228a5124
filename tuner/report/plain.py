"""Documents as plain data and as text: what every report writes as JSON and CSV, made in one place."""

from __future__ import annotations

import base64
import csv
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def plain(value: Any) -> Any:
    """`value` as JSON has it: tuples become lists, what is not a number becomes None."""
    if isinstance(value, Mapping):
        return {name: plain(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def json_text(document: Any) -> str:
    """The document as JSON with its keys in their order; raises ValueError for what is not a number."""
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def csv_text(rows: Iterable[Sequence[object]]) -> str:
    """Rows as CSV, heads first; what is not known (None) is empty."""
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows(rows)
    return stream.getvalue()


def csv_address(text: str) -> str:
    """CSV text as a `data:` address, so that a page that is one file can hand it out."""
    return "data:text/csv;base64," + base64.b64encode(text.encode()).decode()
