"""What differs between two states of hosts, in words, with what is known to matter first."""

from __future__ import annotations

from dataclasses import dataclass

from tiertune.tuner.host.aspects import Weight
from tiertune.tuner.host.state import HostState, aspect_of

ABSENT = "nothing"
ORDER: tuple[Weight, ...] = ("decides", "shifts", "notes")
MEANING: dict[Weight, str] = {
    "decides": "results must not be compared over this",
    "shifts": "may move results by more than noise",
    "notes": "worth knowing",
}


@dataclass(frozen=True)
class Difference:
    """One aspect of which two hosts, or two moments of one, say something else."""

    name: str
    weight: Weight
    a: str
    b: str
    why: str


def differences(a: HostState, b: HostState) -> list[Difference]:
    """All of them, the weightiest first. Counters since boot say nothing about two hosts and are left out."""
    found = []
    for name in dict.fromkeys([*a.settings, *b.settings]):
        one, other = a.settings.get(name, ABSENT), b.settings.get(name, ABSENT)
        if one != other:
            aspect = aspect_of(name)
            found.append(Difference(name, aspect.weight, one, other, aspect.why))
    for name in dict.fromkeys([*a.quantities, *b.quantities]):
        aspect = aspect_of(name)
        if not _alike(a.quantities.get(name), b.quantities.get(name), aspect.tolerance or 0.0):
            one, other = (_number(state.quantities.get(name)) for state in (a, b))
            found.append(Difference(name, aspect.weight, one, other, aspect.why))
    return sorted(found, key=lambda difference: ORDER.index(difference.weight))


def verdict(found: list[Difference]) -> str:
    """One sentence about all of them."""
    if not found:
        return "Nothing that is recorded differs."
    by_weight = {weight: sum(d.weight == weight for d in found) for weight in ORDER}
    if by_weight["decides"]:
        names = ", ".join(d.name for d in found if d.weight == "decides")
        return f"Results of the two must not be compared: they differ in {names}."
    if by_weight["shifts"]:
        names = ", ".join(d.name for d in found if d.weight == "shifts")
        return f"Results of the two may differ by more than noise, because of {names}."
    return "The two are alike in all that is known to matter."


def _alike(one: float | None, other: float | None, tolerance: float) -> bool:
    if one is None or other is None:
        return one == other
    return abs(one - other) <= tolerance * max(abs(one), abs(other))


def _number(value: float | None) -> str:
    return ABSENT if value is None else f"{value:,.10g}"
