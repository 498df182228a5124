"""What was found out about cells, as plain data: all that reports, tables and `--json` print."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from tiertune.tuner.comparison.inference import ALPHA, holm
from tiertune.tuner.explanation.importance import Importance
from tiertune.tuner.explanation.study import (
    AROUND_SEEDS,
    CHOICE_SEEDS,
    CLOSE,
    GRID_SEEDS,
    Settings,
    Step,
    Study,
    Way,
)
from tiertune.tuner.report.numbers import exact
from tiertune.tuner.statistics import MIN_EFFECT, Effect
from tiertune.tuner.transfer.context import Context, complete
from tiertune.tuner.transfer.context import labels_of as places_of

Data = dict[str, Any]

MOST_TOLD = 3
"""Cells of which the verdict speaks one by one; of more it tells how many."""


def cell_document(study: Study, number: int, label: str, settings: Settings) -> Data:
    """One cell; `number` counts from 1, `label` is its short name within the campaign."""
    context = study.context
    default = complete(context.system, {})
    document: Data = {
        "number": number,
        "label": label,
        "campaign": context.campaign,
        "cell": context.cell,
        "system": context.system,
        "space": context.space,
        **context.words,
        "improved": context.improved,
        "knobs_searched": len(study.trials.axes),
        "changed_knobs": study.changed,
        "defaults": {name: default[name] for name in study.changed},
        "seeds": {
            "choice": CHOICE_SEEDS,
            "judgement": settings.seeds,
            "around": AROUND_SEEDS,
            "grid": GRID_SEEDS,
        },
        "keep": settings.keep,
        "importance": _importance(study.importance, study.trials.failed),
        "way": _way(study.way),
        "stability": stability_of(study),
        "lines": [_line(study, name) for name in study.lines],
        "grid": _grid(study),
    }
    return {
        **document,
        "verdict": _verdict(document),
        "around": _around(document),
        "important_elsewhere": _important_elsewhere(document),
    }


def verdict_of(cells: Sequence[Data]) -> str:
    """The whole answer in a sentence."""
    if len(cells) == 1:
        return str(cells[0]["verdict"])
    if len(cells) <= MOST_TOLD:
        return "; ".join(f"{cell['label']}: {cell['verdict']}" for cell in cells)
    divided = [cell for cell in cells if cell["way"]["enough"] is not None]
    if not divided:
        return f"in none of {len(cells)} cells there is a gain to divide"
    sizes = sorted(len(cell["way"]["config"]) for cell in divided)
    names = Counter(knob for cell in divided for knob in cell["way"]["config"])
    knob, count = min(names.items(), key=lambda item: (-item[1], item[0]))
    span = f"{sizes[0]} to {sizes[-1]}" if sizes[0] < sizes[-1] else f"{sizes[0]}"
    few = "1 knob is" if span == "1" else f"{span} knobs are"
    return (
        f"in {len(divided)} of {len(cells)} cells there is a gain, and {few} enough for"
        f" {divided[0]['keep'] * 100:.0f} % of it; {knob} is among them most often, in {count}"
    )


def labels_of(contexts: Sequence[Context]) -> list[str]:
    """Short names of cells: what tells them apart."""
    names = [context.system if context.space == context.system else context.space for context in contexts]
    if len({context.identity for context in contexts}) == 1:
        return names
    pairs = zip(names, places_of(contexts), strict=True)
    return [f"{name} {place}" if len(set(names)) > 1 else place for name, place in pairs]


def _figures(effect: Effect | None) -> Data:
    if effect is None:
        return {"ratio": None, "low": None, "high": None}
    return {"ratio": effect.ratio, "low": effect.low, "high": effect.high}


def _importance(found: Importance, failed: int) -> Data:
    def parts(of: Sequence[Any]) -> list[Data]:
        return [
            {"knobs": list(p.knobs), "share": p.share, "low": p.low, "high": p.high, "shown": p.shown}
            for p in of
        ]

    return {
        "trials": found.trials,
        "failed_trials": failed,
        "r2": found.r2,
        "refused": found.refused,
        "knobs": parts(found.knobs),
        "pairs": parts(found.pairs),
    }


def _way(way: Way) -> Data:
    return {
        "reason": way.reason,
        "enough": way.enough,
        "steps": [_step(step, number) for number, step in enumerate(way.steps)],
        "config": dict(way.steps[way.enough].config) if way.enough is not None else {},
        "needed": [
            {"knob": knob, **_figures(effect), "needed": effect is None or effect.high < 1.0}
            for knob, effect in way.needed.items()
        ],
    }


def _step(step: Step, number: int) -> Data:
    share = step.share
    return {
        "step": number,
        "changes": step.changes,
        "knobs_changed": len(step.config),
        **_figures(step.effect),
        "added": _figures(step.added),
        "share": share.share if share else None,
        "share_low": share.low if share else None,
        "share_high": share.high if share else None,
        "keeps_constraints": step.keeps_constraints,
        "forbidden": step.forbidden,
    }


def stability_of(study: Study) -> Data:
    """What lies around the optimum: neighbours, the best and the worst of them, and knobs on a bound."""
    neighbours = [
        {
            "knob": one.knob,
            "value": one.value,
            **_figures(one.effect),
            "close": one.effect is not None and one.effect.ratio >= 1 / CLOSE,
        }
        for one in study.neighbours
    ]
    # Adjusted: of twenty neighbours that are as good, one seems better by luck in a third of all cells.
    adjusted = holm([one.chance for one in study.neighbours])
    better = [
        one
        for one, p in zip(neighbours, adjusted, strict=True)
        if (one["low"] or 0) > 1.0 and one["ratio"] >= 1.0 + MIN_EFFECT and p < ALPHA
    ]
    known = [one for one in neighbours if one["ratio"] is not None]
    worst = min(known, key=lambda one: one["ratio"], default=None)
    return {
        "neighbours": neighbours,
        "close": sum(one["close"] for one in neighbours),
        "failed": len(neighbours) - len(known),
        "better": better,
        "worst": worst,
        "bounds": [
            {
                "knob": knob,
                "value": study.context.tuned[knob],
                "end": end,
                "also_default": knob not in study.changed,
            }
            for knob, end in study.bounds.items()
        ],
    }


def _line(study: Study, name: str) -> Data:
    from tiertune import engine

    axis = next(axis for axis in study.trials.axes if axis.name == name)
    default = complete(study.context.system, {})[name]
    return {
        "knob": name,
        "unit": engine.system(study.context.system).knob(name).unit,
        "log": axis.log,
        "words": axis.type in ("bool", "choice"),
        "tuned": study.context.tuned[name],
        "default": default,
        "points": [{"value": point.value, **_figures(point.effect)} for point in study.lines[name]],
    }


def _grid(study: Study) -> Data | None:
    grid = study.grid
    if grid is None:
        return None
    default = complete(study.context.system, {})
    return {
        "knobs": list(grid.knobs),
        "rows": list(grid.rows),
        "columns": list(grid.columns),
        "tuned": [study.context.tuned[knob] for knob in grid.knobs],
        "default": [default[knob] for knob in grid.knobs],
        "ratios": [[None if np.isnan(gain) else math.exp(float(gain)) for gain in row] for row in grid.gains],
        "beyond": grid.beyond,
    }


def _verdict(cell: Data) -> str:
    way, count = cell["way"], len(cell["changed_knobs"])
    if way["enough"] is None:
        return str(way["reason"])
    step, few = way["steps"][way["enough"]], len(way["config"])
    names = ", ".join(f"{knob}={exact(value)}" for knob, value in way["config"].items())
    if few == count:
        keep = f"{cell['keep'] * 100:.0f} % of the gain"
        return f"no fewer than all {count} changes were found to keep {keep}: {names}"
    verb = "carries" if few == 1 else "carry"
    share = f"{step['share'] * 100:.0f} % of the gain"
    gain = f"{step['ratio']:.3f}x the default, all together {way['steps'][-1]['ratio']:.3f}x"
    span = f"95 % interval of the share {step['share_low'] * 100:.0f} to {step['share_high'] * 100:.0f} %"
    return f"{few} of {count} changed knobs {verb} {share} ({gain}; {span}): {names}"


def _important_elsewhere(cell: Data) -> list[str]:
    """Knobs that matter in the trials and can stay at their defaults all the same; none without a gain."""
    if cell["way"]["enough"] is None:
        return []
    shown = [part["knobs"][0] for part in cell["importance"]["knobs"] if part["shown"]]
    return [knob for knob in shown if knob not in cell["way"]["config"]]


def _around(cell: Data) -> str:
    """How stable the optimum is, in a sentence."""
    found = cell["stability"]
    count = len(found["neighbours"])
    centre = "the tuned configuration" if cell["improved"] else "the default"
    if not count:
        return f"{centre} has no neighbours to compare it with"
    said = f"{found['close']} of {count} neighbours of {centre} are within 2 % of it"
    if found["worst"] is not None and not found["worst"]["close"]:
        worst = found["worst"]
        said += (
            f"; the worst step is {worst['knob']}={exact(worst['value'])}, at {worst['ratio']:.2f} of its"
            " performance"
        )
    if found["failed"]:
        said += f"; {found['failed']} failed"
    if found["better"]:
        best = max(found["better"], key=lambda one: one["ratio"])
        said += f"; {best['knob']}={exact(best['value'])} is better still, {best['ratio']:.3f}x"
    moved = [one["knob"] for one in found["bounds"] if not one["also_default"]]
    if moved:
        said += f"; {', '.join(moved)} {'lies' if len(moved) == 1 else 'lie'} on an end of the range"
    return said
