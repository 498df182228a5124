"""Sizes and ratios as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiertune.nearest import alike, nearest
from tiertune.units import MAX_BYTES, UnitError, fast_tier_bytes, format_size, parse_ratio, parse_size


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("64GiB", 64 * 2**30),
        ("13.75MiB", 14_417_920),
        ("96GB", 96 * 10**9),
        ("2MiB", 2**21),
        ("4KiB", 4096),
        ("4 KiB", 4096),
        ("1kB", 1000),
        ("1TB", 10**12),
        ("1TiB", 2**40),
        ("7B", 7),
        ("4096", 4096),
        (4096, 4096),
        ("0.1GB", 10**8),
        ("1.1KiB", None),
        ("64GBi", None),
        ("64gib", None),
        ("GiB", None),
        ("", None),
        ("1e3MiB", None),
        ("-1MiB", None),
        ("0", None),
        ("2048PiB", None),
        (True, None),
        (1.5, None),
    ],
)
def test_sizes(text: str | int, size_bytes: int | None) -> None:
    if size_bytes is None:
        with pytest.raises(UnitError):
            parse_size(text)
    else:
        assert parse_size(text) == size_bytes


@given(st.integers(min_value=1, max_value=MAX_BYTES))
def test_formatted_sizes_read_back(size_bytes: int) -> None:
    assert parse_size(format_size(size_bytes)) == size_bytes


def test_unknown_unit_names_the_nearest() -> None:
    with pytest.raises(UnitError, match="did you mean 'GiB'"):
        parse_size("64GiBs")
    with pytest.raises(UnitError, match="did you mean 'kB'"):
        parse_size("64KB")


def test_bounds_of_sizes_are_the_callers() -> None:
    with pytest.raises(UnitError, match="the smallest valid size is 4KiB"):
        parse_size("1KiB", 4096, 2**30)
    with pytest.raises(UnitError, match="the largest valid size is 1GiB"):
        parse_size("2GiB", 4096, 2**30)


@pytest.mark.parametrize(
    "text", ["1-8", "1:8:2", "1:", ":8", "0:8", "1:0", "-1:8", "1.5:8", "1:9999999999", ""]
)
def test_wrong_ratios(text: str) -> None:
    with pytest.raises(UnitError):
        parse_ratio(text)


@given(st.integers(1, 2**50), st.integers(1, 100), st.integers(1, 100), st.sampled_from([4096, 2**21]))
def test_fast_share_is_whole_pages_and_never_more_than_asked(
    footprint: int, fast: int, slow: int, page: int
) -> None:
    share = fast_tier_bytes(footprint, f"{fast}:{slow}", page)
    assert share % page == 0
    assert share * (fast + slow) <= footprint * fast < (share + page) * (fast + slow)


def test_the_studys_rule() -> None:
    """DIMES'25 sizes fast memory as a ninth of the footprint at 1:8: 65 GiB leave 7.22 GiB."""
    assert fast_tier_bytes(65 * 2**30, "1:8", 2**21) / 2**30 == pytest.approx(7.22, abs=0.005)


def test_nearest_ignores_case_and_knows_nothing_of_nothing() -> None:
    assert nearest("HEMEN", ["notier", "hemem"]) == "hemem"
    assert nearest("anything", []) == ""
    assert alike("scale", "SCALE") == 1.0
