"""Numbers as reports print them: four significant digits, sizes in their binary unit."""

from __future__ import annotations

from tiertune.tuner.report.document import Value
from tiertune.units import binary_unit, is_bytes, rounded_size


def number(value: Value | None) -> str:
    """`1234.56` -> `1 235`, `0.000123` -> `0.000123`, None -> a dash. Text and switches stay as they are."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value != value:
        return "not a number"
    if isinstance(value, int) or (abs(value) >= 1000 and abs(value) < 1e15):
        return f"{round(value):,}".replace(",", "\u202f")
    return f"{value:.4g}"


def exact(value: Value) -> str:
    """A knob's value with every digit that matters to paste it elsewhere."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.7g}" if isinstance(value, float) else str(value)


def quantity(value: Value | None, unit: str) -> str:
    """Value and unit; bytes as KiB, MiB or GiB."""
    if is_bytes(unit) and isinstance(value, (int, float)) and not isinstance(value, bool):
        return rounded_size(value)
    text = number(value)
    return f"{text} {unit}" if unit and value is not None else text


def pair(default: float | None, tuned: float | None, unit: str) -> tuple[str, str, str]:
    """Two values in one unit, and that unit; bytes in the binary unit that the larger one fills."""
    size, shown = (1, unit)
    if is_bytes(unit):
        size, shown = binary_unit(max(abs(default or 0), abs(tuned or 0)))
    first, second = (None if value is None else value / size for value in (default, tuned))
    return number(first), number(second), shown


def change(default: float | None, tuned: float | None) -> str:
    """How `tuned` differs from `default`: a percentage, or a factor where that reads better."""
    if default is None or tuned is None:
        return "-"
    if default == tuned:
        return "same"
    if default == 0:
        return "from 0"
    ratio = tuned / default
    if ratio >= 3:
        return f"{ratio:.3g}x"
    return f"{(ratio - 1) * 100:+.1f} %"
