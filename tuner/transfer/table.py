"""The data behind each figure and table, as rows for CSV files."""

from __future__ import annotations

from typing import Any

Data = dict[str, Any]
Rows = list[list[object]]

FIGURES = ("status", "ratio", "low", "high")
SHARES = ("share", "share_low", "share_high")


def tables_of(study: Data) -> dict[str, Rows]:
    """Every table of a study by its name, heads first; contexts by their numbers."""
    return {
        "contexts": _contexts(study),
        "matrix": _matrix(study),
        "features": _features(study),
        "robust": _ways(study),
        "left-out": _left_out(study),
        "configurations": _configurations(study),
    }


def _contexts(study: Data) -> Rows:
    names = list(study["contexts"][0]["features"])
    words = ("number", "label", "campaign", "workload", "machine", "ratio", "threads", "pages", "contention")
    head = [*words, *(name.replace(" ", "_") for name in names), *(f"native_{name}" for name in FIGURES)]
    rows = [
        [
            *(one[word] for word in words),
            *one["features"].values(),
            *(one["native"][name] for name in FIGURES),
        ]
        for one in study["contexts"]
    ]
    return [list(head), *rows]


def _matrix(study: Data) -> Rows:
    names = ("from", "to", *FIGURES, *SHARES)
    return [[*names, "reason"], *([*(c[n] for n in names), c.get("reason", "")] for c in study["matrix"])]


def _features(study: Data) -> Rows:
    names = (
        "feature", "unit", "loss", "low", "high", "chance", "share_explained", "same", "different", "alone",
        "pairs_alone",
        "verdict",
    )  # fmt: skip
    return [list(names), *([one[name] for name in names] for one in study["prediction"]["features"])]


def _ways(study: Data) -> Rows:
    ways = [(f"robust, best {one['aim']}", one["contexts"]) for one in study["robust"]]
    ways.append(("portfolio with its rule", study["portfolio"]["with_the_rule"]["contexts"]))
    names = ("to", "candidate", *FIGURES, *SHARES)
    return [["way", *names], *([way, *(cell[n] for n in names)] for way, cells in ways for cell in cells)]


def _left_out(study: Data) -> Rows:
    names = ("to", "candidate", *FIGURES, *SHARES)
    return [
        ["left_out", "way", *names],
        *(
            [line["left_out"], line["way"], *(cell[name] for name in names)]
            for line in study["left_out"]
            for cell in line["contexts"]
        ),
    ]


def _configurations(study: Data) -> Rows:
    named = [(f"tuned for {one['label']}", one["changed_knobs"]) for one in study["contexts"]]
    named += [(f"robust, best {one['aim']}", one["changed_knobs"]) for one in study["robust"]]
    named += [(f"portfolio: {leaf['rule']}", leaf["changed_knobs"]) for leaf in study["portfolio"]["leaves"]]
    knobs = sorted({knob for _, changed in named for knob in changed})
    return [["configuration", *knobs], *([name, *(c.get(knob) for knob in knobs)] for name, c in named)]
