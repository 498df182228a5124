"""A tornado: what each uncertain parameter alone does to a lead, the widest on top."""

from __future__ import annotations

import io

from tiertune.tuner.sensitivity.study import SceneStudy

LEAST_SHARE = 0.01
"""Ends that change less than this share of the widest swing have no bar."""


def tornado(study: SceneStudy, claim: str, by_pct: float) -> str:
    """The picture as SVG, the same for the same study."""
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    swings = [one for one in reversed(study.swings) if one.low_pct is not None and one.high_pct is not None]
    figure = Figure(figsize=(7.5, 1.6 + 0.35 * (len(swings) + 1)), layout="constrained")
    FigureCanvasSVG(figure)
    axes = figure.add_subplot()
    nominal = study.nominal_pct or 0.0
    widest = max((swing.size() for swing in swings), default=0.0)
    for place, swing in enumerate(swings):
        parameter = swing.parameter
        assert swing.low_pct is not None
        assert swing.high_pct is not None
        for value, colour, label in (
            (swing.low_pct, "#4477aa", f"{parameter.low:g}"),
            (swing.high_pct, "#ee6677", f"{parameter.high:g}"),
        ):
            if abs(value - nominal) <= LEAST_SHARE * widest:
                continue
            axes.barh(place, value - nominal, left=nominal, color=colour, height=0.6)
            side = "left" if value >= nominal else "right"
            axes.annotate(
                label,
                (value, place),
                xytext=(3 if side == "left" else -3, 0),
                textcoords="offset points",
                ha=side,
                va="center",
                fontsize=7,
            )
    together = [lead for lead in study.together_pct if lead is not None]
    if together:
        axes.plot(together, [len(swings)] * len(together), "|", color="#222222", markersize=10)
    names = [swing.parameter.name for swing in swings] + (["all together"] if together else [])
    axes.set_yticks(range(len(names)), names)
    axes.axvline(nominal, color="#222222", linewidth=1)
    axes.axvline(by_pct, color="#aa3377", linewidth=1, linestyle="--")
    axes.margins(x=0.12)
    axes.set_xlabel("lead in %; dashed: what the claim needs; beside bars: ends of ranges")
    axes.set_title(
        f"{claim}: {study.name}\n{study.verdict}, {study.holding} of {study.measured} models", fontsize=9
    )
    out = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "tiertune"}):
        figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()
