"""Figures of a study: a tornado for each scene, and all scenes by parameter as a heat map."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from tiertune.tuner.report.figures import style
from tiertune.tuner.report.figures.heat import HeatCell, Side, heat

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Data = dict[str, Any]

LEAST_SHARE = 0.01
"""Ends that change less than this share of the widest swing have no bar."""
LEAST_COLOUR_PCT = 10.0
"""The deepest colour is for the lead that is furthest from what is needed, but for no less than this."""
LEAST_PCT = 0.05
"""Smaller leads are told with one digit that is not 0."""
SHORT_FROM_PCT = 10.0
"""From here on, the cells of the map do without digits after the point."""
TOGETHER, SEEDS = "all together", "seeds"


def tornado(document: Data, scene: Data, name: str) -> str:
    """SVG of what each parameter alone does to the lead of a scene, the widest on top; empty where nothing
    was measured at the machine file's own values."""
    nominal = scene["nominal_lead_pct"]
    if nominal is None:
        return ""
    swings = [
        one
        for one in scene["one_at_a_time"]
        if one["lead_at_low_pct"] is not None and one["lead_at_high_pct"] is not None
    ]
    together = [lead for lead in scene["together_lead_pct"] if lead is not None]
    ends = scene["nominal_interval_pct"]
    rows = [one["parameter"] for one in swings] + [TOGETHER] * bool(together) + [SEEDS] * bool(ends)
    widest = max((abs(one["lead_at_high_pct"] - one["lead_at_low_pct"]) for one in swings), default=0.0)
    with style.canvas(1.1 + 0.34 * max(1, len(rows))) as (figure, (axes,)):
        for place, swing in enumerate(swings):
            _swing(axes, place, swing, nominal, LEAST_SHARE * widest)
        if together:
            spots = [rows.index(TOGETHER)] * len(together)
            axes.plot(
                together, spots, "|", color=style.INK, markersize=11, label="one model, all changed at once"
            )
        if ends:
            axes.plot(ends, [rows.index(SEEDS)] * 2, color=style.INK, linewidth=2.2)
        axes.axvline(nominal, color=style.INK, linewidth=1.0)
        axes.axvline(
            document["needed_lead_pct"], color=style.BAD, linewidth=1.3, linestyle="--", label="needed"
        )
        axes.set_yticks(range(len(rows)), rows)
        axes.set_ylim(max(1, len(rows)) - 0.4, -0.6)
        axes.grid(axis="y", visible=False)
        axes.margins(x=0.12)
        axes.set_xlabel(f"lead of {document['better']} over {document['worse']} (%)")
        handles, labels = axes.get_legend_handles_labels()
        once = dict(zip(labels, handles, strict=True))
        figure.legend(once.values(), once.keys(), loc="outside upper left", ncols=2, columnspacing=1.2)
        told = "; ".join(
            f"{one['parameter']} at {one['low']:g}: {one['lead_at_low_pct']:+.1f} %,"
            f" at {one['high']:g}: {one['lead_at_high_pct']:+.1f} %"
            for one in swings
        )
        described = f"Lead {nominal:+.1f} % as the machine file says. {told}"
        return style.to_svg(
            figure, name, escape(f"What each parameter does on {scene['scene']}"), escape(described)
        )


def _swing(axes: Axes, place: int, swing: Data, nominal: float, least_pct: float) -> None:
    """A bar to each end that changes more than `least_pct`, the longer one below, each with its value."""
    ends = [
        (swing[f"lead_at_{end}_pct"], colour, f"{swing[end]:g}", f"at the {end} end")
        for end, colour in (("low", style.TUNED), ("high", style.DEFAULT))
    ]
    ends = [one for one in ends if abs(one[0] - nominal) > least_pct]
    ends.sort(key=lambda one: -abs(one[0] - nominal))
    for lead, colour, _, label in ends:
        axes.barh(place, lead - nominal, left=nominal, color=colour, height=0.6, label=label)
    for right in (True, False):
        # Where both ends lie on one side, their values stand in the order of their bars.
        side = [one for one in ends if (one[0] >= nominal) == right]
        if side:
            texts = [value for _, _, value, _ in (reversed(side) if right else side)]
            axes.annotate(
                ", ".join(texts), (side[0][0], place), xytext=(3 if right else -3, 0),
                textcoords="offset points", ha="left" if right else "right", va="center", fontsize=8,
                color=style.INK,
            )  # fmt: skip


def signed(lead: float) -> str:
    """A lead in percent with its sign, also where it is next to nothing."""
    return f"{lead:+.1f}" if lead == 0.0 or abs(lead) >= LEAST_PCT else f"{lead:+.1g}"


def margins(document: Data, name: str) -> str:
    """SVG of the lowest lead that each parameter leads to, for every scene; empty for a single scene."""
    scenes, needed = document["scenes"], document["needed_lead_pct"]
    if len(scenes) < 2:
        return ""
    names = [one["name"] for one in document["parameters"]]
    together = any(scene["together_lead_pct"] for scene in scenes)
    columns = ["as the file says", *names, *([TOGETHER] if together else [])]
    lowest = [[_lowest(scene, column) for column in columns] for scene in scenes]
    known = [abs(lead - needed) for row in lowest for lead in row if lead is not None]
    deepest = max([LEAST_COLOUR_PCT, *known])

    def cell_at(row: int, column: int) -> HeatCell:
        lead = lowest[row][column]
        if lead is None:
            return HeatCell(None, "failed")
        shown = f"{lead:+.0f}" if abs(lead) >= SHORT_FROM_PCT else signed(lead)
        return HeatCell((lead - needed) / deepest, shown, framed=lead <= needed)

    told = "; ".join(
        f"{scene['scene']}: "
        + ", ".join(
            f"{column} {'failed' if lead is None else f'{lead:+.1f} %'}"
            for column, lead in zip(columns, row, strict=True)
        )
        for scene, row in zip(scenes, lowest, strict=True)
    )
    return heat(
        cell_at,
        Side([scene["scene"] for scene in scenes], "scenario"),
        Side(columns, "what was varied"),
        name,
        "Lowest lead in each scenario, by what was varied",
        escape(told),
    )


def _lowest(scene: Data, column: str) -> float | None:
    """The lowest lead of a scene where this was varied; None where a run failed."""
    if column == TOGETHER:
        leads = scene["together_lead_pct"]
    else:
        swings = {one["parameter"]: one for one in scene["one_at_a_time"]}
        if column not in swings:
            return scene["nominal_lead_pct"]  # type: ignore[no-any-return]
        leads = [swings[column]["lead_at_low_pct"], swings[column]["lead_at_high_pct"]]
    return None if None in leads or not leads else min(leads)
