"""The colours of all pages and figures, declared once: for light pages, dark ones, and print.

Hues are those of Okabe and Ito (Color Universal Design, 2008), which stay apart for colour-blind readers:
vermillion for the default, blue for tuned, reddish purple for what is bad. They are darkened on light pages
and lightened on dark ones until text in them has the contrast that WCAG 2.2 asks for (4.5 to 1).
"""

from __future__ import annotations

from typing import NamedTuple


class Colour(NamedTuple):
    """One colour in each mode, as `#rrggbb`."""

    light: str
    dark: str
    print: str


PALETTE = {
    "paper": Colour("#ffffff", "#10151b", "#ffffff"),
    "panel": Colour("#f6f8fa", "#171d25", "#ffffff"),
    "plain-back": Colour("#f2f2ee", "#22262b", "#ffffff"),
    "good-back": Colour("#e2f1fa", "#112b3d", "#ffffff"),
    "ink": Colour("#1b1f24", "#e6eaef", "#000000"),
    "muted": Colour("#57606a", "#9aa5b1", "#444444"),
    "grid": Colour("#d8dee4", "#2b3440", "#dddddd"),
    "line": Colour("#d1d9e0", "#303a46", "#bbbbbb"),
    "control": Colour("#7b8590", "#76818d", "#bbbbbb"),
    "default": Colour("#a85200", "#f0a13c", "#a85200"),
    "tuned": Colour("#0067a3", "#63b8ee", "#0067a3"),
    "bad": Colour("#a3195b", "#f080b4", "#a3195b"),
}
BACKS = ("paper", "panel", "plain-back", "good-back")
"""What text is written on."""
TEXTS = ("ink", "muted", "default", "tuned", "bad")

UNKNOWN = "#bdbdbd"
"""The cell of a heat map that has no figure; heat maps have their own ground, so it is one in all modes."""
HEAT = "PuOr"
"""Matplotlib's name of the scale of heat maps: orange is worse, purple better, told apart by all readers."""


def palette_css() -> str:
    """The variables for a style sheet: light, dark where the reader prefers it, and print."""
    light, dark, printed = (
        " ".join(f"--{name}: {getattr(colour, mode)};" for name, colour in PALETTE.items())
        for mode in Colour._fields
    )
    return "\n".join(
        (
            f":root {{ color-scheme: light dark; {light} }}",
            f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}",
            f"@media print {{ :root {{ color-scheme: light; {printed} }} }}",
        )
    )


def variable(name: str) -> str:
    """The colour `name` for a figure in a page: follows the page, and is the light one outside of it."""
    return f"var(--{name},{PALETTE[name].light})"
