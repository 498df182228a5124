"""docs/search.md: the part between its marks is written here, from races alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tests.bench.search.picture import draw, write_csv
from tests.bench.search.race import Race
from tests.bench.search.summary import Curve, curves, interval, trials_to_reach
from tests.bench.search.variants import VARIANTS

PAGE = Path(__file__).resolve().parents[3] / "docs" / "search.md"
FOLDER = PAGE.parent / "search"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
PRIORS_BEGIN, PRIORS_END = "<!-- priors: begin -->", "<!-- priors: end -->"
GOALS = {"default": 40, "warm": 15}
POINTS = (5, 10, 15, 20, 40, 100)
WORSE = 0.01  # of regret; below that a difference is not looked at


def write(races: Sequence[Race]) -> None:
    """Write figure, CSV and the measured part of the page."""
    made = {name: curve for name, curve in curves(races).items() if name in VARIANTS}
    made = {name: made[name] for name in VARIANTS if name in made}
    FOLDER.mkdir(exist_ok=True)
    labels = {name: f"{name}: {VARIANTS[name].meaning}" for name in made}
    draw(made, labels, GOALS, FOLDER / "regret.svg")
    write_csv(made, FOLDER / "regret.csv")
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    parts = [BEGIN, _figure(made), _table(made), _targets(made), _cells(made), END]
    PAGE.write_text(before + "\n\n".join(parts) + after, encoding="utf-8")


def write_priors(races: Sequence[Race]) -> None:
    """Write the part of the page on good and bad priors, and its CSV file."""
    made = curves(races)
    made = {name: made[name] for name in ("default", "believed", "misled")}
    FOLDER.mkdir(exist_ok=True)
    write_csv(made, FOLDER / "priors.csv")
    searches = min(curve.regrets.shape[1] for curve in made.values())
    plain, count = made["default"].median(), len(made["default"].cells)
    where = f"{searches} searches of 40 trials in each of {count} cells"
    lines = [
        f"{where}. The numbers: [priors.csv](search/priors.csv).",
        _table(made, (5, 10, 15, 20, 40)),
        *(_against(name, made[name], plain) for name in ("believed", "misled")),
        "| cell | default config | " + " | ".join(f"{name}, 40 trials" for name in made) + " |\n"
        "|---|---|---|---|---|\n"
        + "\n".join(
            f"| {cell} | {100 * made['default'].regrets[place, 0, 0]:.1f} | "
            + " | ".join(f"{100 * curve.median()[place, -1]:.1f}" for curve in made.values())
            + " |"
            for place, cell in enumerate(made["default"].cells)
        ),
    ]
    before, rest = PAGE.read_text(encoding="utf-8").split(PRIORS_BEGIN)
    after = rest.split(PRIORS_END)[1]
    text = "\n\n".join([PRIORS_BEGIN, *lines, PRIORS_END])
    PAGE.write_text(before + text + after, encoding="utf-8")


def _against(name: str, curve: Curve, plain: np.ndarray) -> str:
    """In how many cells a way of searching is better and worse than the default one."""
    gaps = {n: curve.median()[:, n - 1] - plain[:, n - 1] for n in (10, 40)}
    told = [
        f"after {n} trials it is better than default by more than {100 * WORSE:.0f} point in"
        f" {int((gap < -WORSE).sum())} cells and worse in {int((gap > WORSE).sum())}"
        for n, gap in gaps.items()
    ]
    worst = int(gaps[40].argmax())
    said = f"; at worst by {100 * gaps[40][worst]:.1f} points, {curve.cells[worst]}"
    return f"{name}: {', '.join(told)}{said if gaps[40][worst] > WORSE else ''}."


def _figure(made: dict[str, Curve]) -> str:
    searches = ", ".join(f"{name} {curve.regrets.shape[1]}" for name, curve in made.items())
    count = len(next(iter(made.values())).cells)
    least = min(curve.regrets.shape[1] for curve in made.values())
    if least < 3:
        searches += ". Fewer than three searches a cell: a single cell's number is luck to a point or two"
    return (
        "![Regret of the configuration handed over against trials](search/regret.svg)\n\n"
        f"Median over {count} cells of each cell's median over searches, with 95 % bootstrap intervals over"
        f" cells.\nSearches a cell: {searches}. The numbers: [regret.csv](search/regret.csv)."
    )


def _table(made: dict[str, Curve], points: Sequence[int] = POINTS) -> str:
    lines = ["| way of searching | " + " | ".join(f"{n} trials" for n in points) + " |"]
    lines.append("|---|" + "---|" * len(points))
    for name, curve in made.items():
        cells = 100.0 * curve.median()
        low, high = interval(cells)
        middle = np.median(cells, axis=0)
        shown = [
            f"{middle[n - 1]:.1f} ({low[n - 1]:.1f} to {high[n - 1]:.1f})" if n <= len(middle) else ""
            for n in points
        ]
        lines.append(f"| {name} | " + " | ".join(shown) + " |")
    return "Regret in %, median over cells (95 % interval):\n\n" + "\n".join(lines)


def _targets(made: dict[str, Curve]) -> str:
    lines = ["| target | measured | met |", "|---|---|---|"]
    study = made["study"]
    for name, goal in GOALS.items():
        if name not in made:
            lines.append(f"| {name} reaches the study's 100 trials within {goal} | not measured | no |")
            continue
        trials = trials_to_reach(made[name], study)
        length = made[name].regrets.shape[2]
        reached = int((trials <= goal).sum())
        middle = float(np.median(trials))
        said = f"{middle:.0f} trials" if np.isfinite(middle) else f"not within {length} trials"
        met = "yes" if middle <= goal else "**no**"
        target = f"{name} reaches within {goal} trials what the study's setting reaches in 100"
        share = f"within {goal} in {reached} of {len(trials)} cells"
        lines.append(f"| {target} | {said} in the median; {share} | {met} |")
    random, ours = made["random"], made["default"]
    length = ours.regrets.shape[2]
    behind = ours.median()[:, length - 1] - random.median()[:, length - 1]
    worse = [cell for cell, gap in zip(ours.cells, behind, strict=True) if gap > WORSE]
    met = "**no**" if worse else "yes"
    said = f"worse by more than {100 * WORSE:.0f} point in {len(worse)} of {len(behind)} cells"
    lines.append(f"| default never worse than random after {length} trials | {said} | {met} |")
    goal_pct = 100.0 * float(np.median(study.median()[:, -1]))
    note = f"The study's setting is at {goal_pct:.1f} % after 100 trials in the median over cells."
    return "\n".join(lines) + "\n\n" + note


def _cells(made: dict[str, Curve]) -> str:
    names = [name for name in ("random", "study", "default", "warm") if name in made]
    lines = [
        "| cell | default config | "
        + " | ".join(f"{n}, {made[n].regrets.shape[2]} trials" for n in names)
        + " |"
    ]
    lines.append("|---|---|" + "---|" * len(names))
    first = made[names[0]]
    for place, cell in enumerate(first.cells):
        start = 100.0 * float(np.median(first.regrets[place, :, 0]))
        ends = [100.0 * float(made[n].median()[place, -1]) for n in names]
        lines.append(f"| {cell} | {start:.1f} | " + " | ".join(f"{end:.1f}" for end in ends) + " |")
    return "Regret in % at the end, by cell:\n\n" + "\n".join(lines)
