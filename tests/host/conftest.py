"""The order of host tests: what takes longest begins first, so that nothing runs alone at the end."""

from __future__ import annotations

import pytest

LONGEST_FIRST = ("test_fleet_campaign", "test_fleet_page")
"""Files. Guests that have patience for a step only are not among them: they come when less goes on."""


def _place(item: pytest.Item) -> int:
    name = item.path.stem
    return LONGEST_FIRST.index(name) if name in LONGEST_FIRST else len(LONGEST_FIRST)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Only moves files; tests of a file stay in their order."""
    items.sort(key=_place)
