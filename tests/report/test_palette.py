"""The palette: text is legible in every mode, and colours stay apart for colour-blind readers."""

from __future__ import annotations

import re
from itertools import combinations, product

import pytest

from tiertune.tuner.report.environment import asset
from tiertune.tuner.report.figures.style import NAMES
from tiertune.tuner.report.palette import BACKS, PALETTE, TEXTS, Colour, palette_css

TEXT_CONTRAST, CONTROL_CONTRAST = 4.5, 3.0
"""What WCAG 2.2 asks for, level AA: of text (1.4.3), and of the edges of controls (1.4.11)."""
# Linear RGB as a dichromat sees it: Machado, Oliveira and Fernandes (2009), table 1, severity 1.
DICHROMATS = {
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
}


def linear(colour: str) -> tuple[float, float, float]:
    shades = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shades)
    return red, green, blue


def luminance(colour: str) -> float:
    red, green, blue = linear(colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("mode", Colour._fields)
def test_text_is_legible_on_every_ground(mode: str) -> None:
    def shade(name: str) -> str:
        return str(getattr(PALETTE[name], mode))

    for text, back in product(TEXTS, BACKS):
        assert contrast(shade(text), shade(back)) >= TEXT_CONTRAST, (text, back)
    if mode != "print":  # paper has no controls
        assert contrast(shade("control"), shade("panel")) >= CONTROL_CONTRAST
        assert contrast(shade("control"), shade("paper")) >= CONTROL_CONTRAST


@pytest.mark.parametrize("mode", ["light", "dark"])
@pytest.mark.parametrize("sight", DICHROMATS)
def test_default_and_tuned_stay_apart_for_dichromats(mode: str, sight: str) -> None:
    """In linear RGB as they see it, where black and white are 1.7 apart."""

    def seen(name: str) -> tuple[float, ...]:
        colour = linear(getattr(PALETTE[name], mode))
        return tuple(sum(f * c for f, c in zip(row, colour, strict=True)) for row in DICHROMATS[sight])

    for one, other in combinations(("default", "tuned", "bad"), 2):
        apart = sum((a - b) ** 2 for a, b in zip(seen(one), seen(other), strict=True)) ** 0.5
        assert apart > 0.1, (one, other)


def test_every_colour_is_of_the_palette() -> None:
    css = asset("report.css")
    assert set(NAMES.values()) <= set(PALETTE)
    widths = {"legible"}
    assert set(re.findall(r"var\(--([a-z-]+)", css)) - widths <= set(PALETTE)
    assert not re.findall(r"#[0-9a-fA-F]{3,8}\b", css), "colours are declared in the palette alone"


def test_each_mode_declares_every_colour() -> None:
    light, dark, printed = palette_css().splitlines()
    assert "prefers-color-scheme: dark" in dark
    assert "print" in printed
    for line in (light, dark, printed):
        assert re.findall(r"--([a-z-]+):", line) == list(PALETTE)
