"""What a campaign left, as frames."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from tiertune.tuner.report.document import Cell, Effect, Report, Value


@dataclass(frozen=True)
class Results:
    """The results of a campaign, also of one that still runs; what its report says, as data.

    Frames have a column ``cell`` with the key of the cell (scenario and system) and hold all cells.
    """

    folder: Path
    report: Report = field(repr=False)

    @property
    def verdict(self) -> str:
        """The answer in a sentence."""
        return self.report.verdict

    @property
    def complete(self) -> bool:
        """Whether nothing is left to run."""
        return self.report.complete

    @property
    def cells(self) -> pd.DataFrame:
        """A row for each cell: what it is of, its outcome, and the effect with its interval."""
        import pandas as pd

        rows = []
        for cell in self.report.cells:
            effect = cell.effect
            rows.append(
                {
                    "cell": cell.id,
                    "system": cell.system,
                    "workload": cell.workload,
                    "machine": cell.machine,
                    "fast_to_slow": cell.ratio,
                    "threads": cell.threads,
                    "page_bytes": cell.page_bytes,
                    "metric": cell.metric.name,
                    "outcome": cell.outcome,
                    "effect_ratio": effect.ratio if effect else None,
                    "effect_low": effect.low if effect else None,
                    "effect_high": effect.high if effect else None,
                    "verdict": cell.verdict,
                }
            )
        return pd.DataFrame(rows)

    @property
    def trials(self) -> pd.DataFrame:
        """A row for each search trial; `value` and `best_so_far` are in the metric's unit, each knob is a
        column ``knob.NAME``, as in a sweep."""
        import pandas as pd

        rows = []
        for cell in self.report.cells:
            for trial in cell.search:
                told = trial.model_dump(exclude={"config"})
                # Knobs may be called like a column: `value` is one of the oracle's.
                knobs = {f"knob.{name}": value for name, value in trial.config.items()}
                rows.append({"cell": cell.id, **told, **knobs})
        return pd.DataFrame(rows)

    @property
    def validation(self) -> pd.DataFrame:
        """A row for each seed of validation: default and tuned in the metric's unit, and their ratio."""
        import pandas as pd

        return pd.DataFrame(
            [{"cell": cell.id, **pair.model_dump()} for cell in self.report.cells for pair in cell.validation]
        )

    @property
    def timelines(self) -> pd.DataFrame:
        """Validation runs over simulated time: ``cell``, ``role`` (default or tuned), ``seed`` and the
        series."""
        import pandas as pd

        parts = [
            pd.DataFrame(line.columns).assign(cell=cell.id, role=line.role, seed=line.seed)
            for cell in self.report.cells
            for line in cell.timelines
        ]
        return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()

    @property
    def knobs(self) -> pd.DataFrame:
        """A row for each knob of each cell: default, tuned, whether it was searched and changed."""
        import pandas as pd

        return pd.DataFrame(
            [{"cell": cell.id, **knob.model_dump()} for cell in self.report.cells for knob in cell.knobs]
        )

    @property
    def front(self) -> pd.DataFrame:
        """A row for each configuration that was validated for two objectives, the default among them: means,
        ratios to the default's with their intervals, and whether it is on the front; a column ``knob.NAME``
        for each knob that acts. Empty where there is one objective."""
        import pandas as pd

        rows = []
        for cell in self.report.cells:
            if cell.front is None:
                continue
            for point in cell.front.points:
                told: dict[str, Any] = {"cell": cell.id, "configuration": point.label, "trial": point.trial}
                told |= {"on_front": point.on_front, "reason": point.reason}
                for metric, share in ((cell.front.first, point.first), (cell.front.second, point.second)):
                    told[metric.name] = share.mean
                    told |= {f"{metric.name}_{end}": getattr(share, end) for end in ("ratio", "low", "high")}
                rows.append(told | {f"knob.{name}": value for name, value in point.config.items()})
        return pd.DataFrame(rows)

    @property
    def best(self) -> dict[str, Value]:
        """What to run, of the only cell; see `best_of` where there are several."""
        return self.best_of(self._only().id)

    def best_of(self, cell: str) -> dict[str, Value]:
        """Every knob of a cell's winner where it was validated as better than the default, else of the
        default. Knobs of a winner that is not better are in `knobs`. Raises `InputError` where two
        objectives leave several to choose from."""
        from tiertune.adapters.registry import adapter_for
        from tiertune.files import InputError

        found = self._cell(cell)
        if found.front is not None and found.outcome == "improved":
            raise InputError(f"{cell} has two objectives and so no one best; choose a row of `front`")
        if found.outcome == "improved":
            return {knob.name: knob.tuned for knob in found.knobs}
        if found.knobs:
            return {knob.name: knob.default for knob in found.knobs}
        return dict(adapter_for(found.system).resolve({}))

    @property
    def effect(self) -> Effect | None:
        """How much better the winner is than the default, of the only cell; above 1 is better."""
        return self._only().effect

    def write_report(self) -> list[Path]:
        """Writes report.html and report.json anew; returns their paths."""
        from tiertune.tuner.report.files import write_report

        return write_report(self.folder)[1]

    def _cell(self, key: str) -> Cell:
        from tiertune.files import InputError
        from tiertune.nearest import nearest

        for cell in self.report.cells:
            if cell.id == key:
                return cell
        near = nearest(key, [cell.id for cell in self.report.cells])
        raise InputError(f"{self.report.campaign} has no cell '{key}'; did you mean '{near}'?")

    def _only(self) -> Cell:
        from tiertune.files import InputError

        if len(self.report.cells) != 1:
            raise InputError(
                f"{self.report.campaign} has {len(self.report.cells)} cells; use best_of with one of them"
            )
        return self.report.cells[0]

    def _repr_html_(self) -> str:
        from html import escape

        shown: Any = self.cells
        if not shown.empty:
            shown = shown[["system", "workload", "machine", "fast_to_slow", "outcome"]]
            shown = shown.join(self.cells[["effect_ratio", "effect_low", "effect_high"]])
        state = "" if self.complete else " (not complete)"
        return f"<p><b>{escape(self.verdict)}</b>{state}</p>{shown._repr_html_()}"


def load_results(campaign: str | Path, results: str | Path = "results") -> Results:
    """What campaign `campaign` left under `results`; also its folder by path. Raises `InputError`."""
    from tiertune.tuner.journal import Journal
    from tiertune.tuner.report.data import build_report
    from tiertune.tuner.report.robustness import read_robustness, with_robustness

    given = Path(campaign)
    is_folder = (given / "journal.sqlite").is_file()
    folder = given if is_folder else campaign_folder(str(campaign), Path(results))
    with Journal(folder / "journal.sqlite", writer=False) as journal:
        report = with_robustness(build_report(journal), read_robustness(folder))
    return Results(folder, report)


def names_file(campaign: str) -> bool:
    """Whether a campaign is told by its file, and not by its name."""
    return "/" in campaign or campaign.endswith((".yaml", ".yml"))


def campaign_folder(campaign: str, results: Path) -> Path:
    """Where campaign `campaign` keeps its journal; raises `InputError` with the nearest that was run."""
    from tiertune.files import InputError
    from tiertune.nearest import nearest

    name = campaign
    if names_file(campaign):
        from tiertune.tuner.campaign import load_campaign

        name = load_campaign(campaign).name
    folder = results / name
    if (folder / "journal.sqlite").is_file():
        return folder
    near = nearest(name, [path.parent.name for path in results.glob("*/journal.sqlite")])
    hint = (
        f"did you mean '{near}'?" if near else f"nothing was run yet; start with `tiertune tune {campaign}`"
    )
    raise InputError(f"{folder}: there is no journal of campaign '{name}'; {hint}")
