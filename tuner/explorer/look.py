"""Colours and type of the figures, in a light and a dark form: those of the reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from tiertune.tuner.report.palette import PALETTE

Scheme = Literal["light", "dark"]


@dataclass(frozen=True)
class Look:
    """Colours after Okabe and Ito: told apart by colour-blind readers.

    `scale` goes from what recedes into the paper to what stands out, which is better; `stands_out` says how.
    """

    ink: str
    muted: str
    grid: str
    panel: str
    default: str
    tuned: str
    bad: str
    scale: list[list[float | str]]
    stands_out: str

    def layout(self, **more: Any) -> dict[str, Any]:
        """What all figures share; `more` wins."""
        axis = {
            "gridcolor": self.grid,
            "linecolor": self.grid,
            "zerolinecolor": self.grid,
            "automargin": True,
        }
        shared: dict[str, Any] = {
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "font": {"color": self.ink, "size": 13, "family": "system-ui, 'DejaVu Sans', sans-serif"},
            "margin": {"l": 8, "r": 8, "t": 12, "b": 8},
            "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
            "xaxis": axis,
            "yaxis": axis,
            "hoverlabel": {"bgcolor": self.panel, "font": {"color": self.ink}},
            # Zoom and hidden lines of a reader stay while new trials arrive.
            "uirevision": "kept",
            "autosize": True,
        }
        for name, value in more.items():
            both = isinstance(value, dict) and isinstance(shared.get(name), dict)
            shared[name] = {**shared[name], **value} if both else value
        for name in [name for name in shared if name[:5] in ("xaxis", "yaxis")]:
            shared[name] = {**axis, **shared[name]}
        return shared


# Between the ends of the scale only lightness and yellow against blue change, as in cividis.
ON_WHITE: list[list[float | str]] = [[0.0, "#e3d68a"], [0.5, "#8a8d86"], [1.0, "#00306f"]]
ON_BLACK: list[list[float | str]] = [[0.0, "#3c5078"], [0.5, "#8d9096"], [1.0, "#fee838"]]


def _look(mode: Scheme, scale: list[list[float | str]], stands_out: str) -> Look:
    names = ("ink", "muted", "grid", "panel", "default", "tuned", "bad")
    colours: dict[str, str] = {name: getattr(PALETTE[name], mode) for name in names}
    return Look(**colours, scale=scale, stands_out=stands_out)


LIGHT = _look("light", ON_WHITE, "darker")
DARK = _look("dark", ON_BLACK, "brighter")


def look_of(scheme: str | None) -> Look:
    """The form that a reader's system asks for; light where it does not say."""
    return DARK if scheme == "dark" else LIGHT
