"""The front of two objectives as a report has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tiertune import engine
from tiertune.adapters.registry import adapter_for
from tiertune.tuner.front import Point, Share
from tiertune.tuner.journal import Row
from tiertune.tuner.report.document import Cell, FrontPart, FrontPoint, FrontShare, FrontTrial, Value
from tiertune.tuner.report.metrics import metric_of
from tiertune.tuner.trial import Config, Status, canonical
from tiertune.tuner.validation import Outcome

Rows = list[list[object]]


def front_part(judged: Outcome, search: Sequence[Row], system: str) -> FrontPart | None:
    """What validation says of two objectives; None where there is one, or too few seeds have run."""
    front = judged.front
    if front is None:
        return None
    objectives, adapter, found = front.objectives, adapter_for(system), front.found
    first_of: dict[str, Row] = {}
    for row in search:
        first_of.setdefault(canonical(row.trial.config), row)
    labels: dict[str, str] = {front.default: "default"}
    for number, point in enumerate(front.found, start=1):
        labels[point.name] = str(number)
    configs = {text: row.trial.config for text, row in first_of.items()}
    configs[front.default] = judged.default_rows[0].trial.config if judged.default_rows else {}
    numbers = {text: row.trial.number for text, row in first_of.items() if text != front.default}
    values = [(row.trial.number, objectives.values(row.metrics)) for row in search if row.status is Status.OK]
    return FrontPart(
        first=metric_of(objectives.first),
        second=metric_of(objectives.second),
        seeds=front.seeds,
        confidence=front.confidence,
        points=[
            _point(
                point,
                labels,
                numbers,
                acting(system, configs[point.name]),
                adapter.native_block(adapter.resolve(configs[point.name])) if point in found else "",
            )
            for point in front.points
        ],
        failed=[f"trial {numbers[text]} {why}" for text, why in judged.failed],
        search=[FrontTrial(number=n, first=v[0], second=v[1]) for n, v in values if v is not None],
    )


def acting(system: str, config: Config) -> dict[str, Value]:
    """Every knob that acts in `config`, those that it does not name at their defaults."""
    whole = adapter_for(system).resolve(config)
    info = engine.system(system)
    return {name: value for name, value in whole.items() if info.acts(name, whole)}


def front_rows(cell: Cell) -> Rows:
    """The table of a front as rows, heads first."""
    front = cell.front
    if front is None:
        return []
    names = [front.first.name, front.second.name]
    shares = [f"{name}_{what}" for name in names for what in ("ratio", "low", "high")]
    knobs = sorted({knob for point in front.points for knob in point.config})
    rows: Rows = [["configuration", "trial", "on_front", "reason", *names, *shares, *knobs]]
    for point in front.points:
        means: list[object] = [point.first.mean, point.second.mean]
        told = [value for s in (point.first, point.second) for value in (s.ratio, s.low, s.high)]
        name = point.label or f"trial {point.trial}"
        on = "yes" if point.on_front else "no"
        rows.append(
            [name, point.trial, on, point.reason, *means, *told, *(point.config.get(k) for k in knobs)]
        )
    return rows


def _point(
    point: Point,
    labels: Mapping[str, str],
    numbers: Mapping[str, int],
    config: dict[str, Value],
    native: str,
) -> FrontPoint:
    reason = ""
    if point.beaten_by is not None:
        better = labels.get(point.beaten_by) or f"trial {numbers[point.beaten_by]}"
        reason = f"beaten by {'configuration ' + better if better.isdigit() else better}"
    return FrontPoint(
        label=labels.get(point.name, ""),
        trial=numbers.get(point.name),
        on_front=point.beaten_by is None,
        reason=reason,
        first=_share(point.first),
        second=_share(point.second),
        config=config,
        native_block=native,
    )


def _share(share: Share) -> FrontShare:
    return FrontShare(mean=share.mean, ratio=share.ratio, low=share.low, high=share.high)
