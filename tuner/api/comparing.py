"""Comparisons: systems at default and tuned, at equal budgets, as frames."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from tiertune.tuner.api.campaigns import Progress
    from tiertune.tuner.campaign import Campaign
    from tiertune.tuner.comparison.document import Comparison
    from tiertune.tuner.events import Listener
    from tiertune.tuner.plan import CampaignPlan

LEAST_SEARCHES = 3
LEAST_SYSTEMS = 2


@dataclass(frozen=True)
class ComparisonResult:
    """A comparison. Slowdowns are against all-fast, lower is better; gains and ratios are of speed.

    A figure with an interval has three columns: its name, and the name with ``_low`` and ``_high``.
    """

    comparison: Comparison = field(repr=False)
    files: tuple[Path, ...]

    @property
    def verdict(self) -> str:
        """The answer in a sentence."""
        return self.comparison.verdict

    @property
    def void(self) -> tuple[str, ...]:
        """Why the comparison proves nothing; empty where it was fair."""
        return tuple(self.comparison.void)

    @property
    def systems(self) -> pd.DataFrame:
        """A row for each system, over all scenarios."""
        return _frame(self.comparison.contenders)

    @property
    def entries(self) -> pd.DataFrame:
        """A row for each system in each scenario."""
        return _frame(self.comparison.entries)

    @property
    def pairs(self) -> pd.DataFrame:
        """A row for each pair of systems, at default and tuned."""
        return _frame(self.comparison.pairs)

    def _repr_html_(self) -> str:
        from html import escape

        return f"<p><b>{escape(self.verdict)}</b></p>{self.systems.to_html()}"


def _frame(parts: Any) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame([_flat(asdict(part)) for part in parts])


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """Figures with an interval as three columns."""
    flat: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, dict):
            flat |= {name: value["value"], f"{name}_low": value["low"], f"{name}_high": value["high"]}
        else:
            flat[name] = value
    return flat


def compare(
    campaign: str | Path | Mapping[str, Any],
    *,
    name: str | None = None,
    extend: bool = False,
    results: str | Path = "results",
    progress: Callable[[Progress], None] | None = None,
) -> ComparisonResult:
    """Compares the systems of a campaign with ``searches: 3`` or more: every one gets the same trials and
    seeds.

    What ran before is kept. Raises `InputError` where the campaign is no comparison.
    """
    from tiertune.tuner.api.campaigns import check_name, conduct, listener_of, written
    from tiertune.tuner.campaign import load_campaign
    from tiertune.tuner.plan import plan_of
    from tiertune.tuner.simulation import SimBackend

    folder = Path(results)
    check_name(name)
    if isinstance(campaign, Mapping):
        with written("campaign", campaign) as path:
            loaded = load_campaign(str(path))
    else:
        loaded = load_campaign(str(campaign))
    check_comparison(loaded, loaded.name if isinstance(campaign, Mapping) else str(campaign))
    plan = plan_of(loaded, name)
    listener = listener_of(plan, progress)
    backend = SimBackend(folder / "profiles", loaded.workload, loaded.machine)
    conduct(loaded, plan, folder, backend, listener, extend)
    references(loaded, plan, folder, listener, extend)
    found, paths = analysed(loaded, plan, folder)
    return ComparisonResult(found, tuple(paths))


def references(
    campaign: Campaign, plan: CampaignPlan, results: Path, listener: Listener, extend: bool
) -> None:
    """Measures what all systems are compared with."""
    from tiertune.tuner.comparison.references import measure_references
    from tiertune.tuner.simulation import SimBackend

    backend = SimBackend(results / "profiles", campaign.workload, campaign.machine)
    measure_references(plan, results / plan.name, backend, listener, extend=extend)


def analysed(campaign: Campaign, plan: CampaignPlan, results: Path) -> tuple[Comparison, list[Path]]:
    """What the journals of a comparison say, and the files that were written about it."""
    from tiertune.tuner.comparison.analysis import compare as analyse
    from tiertune.tuner.comparison.measured import measured, read_journals
    from tiertune.tuner.comparison.page import write_comparison

    folder = results / plan.name
    journals = read_journals(folder)
    found = analyse(plan, journals, campaign.description)
    return found, write_comparison(folder, found, measured(plan, journals))


def check_comparison(campaign: Campaign, source: str) -> None:
    """Raises InputError where a campaign is no comparison."""
    from tiertune.files import InputError
    from tiertune.tuner.campaign import refuse_objectives

    if campaign.searches < LEAST_SEARCHES:
        raise InputError(
            f"{source}: searches: {campaign.searches} cannot tell a lucky search from a better system;"
            f" the smallest valid value for a comparison is {LEAST_SEARCHES}"
        )
    refuse_objectives(campaign, source, "a comparison ranks systems by")
    if campaign.memory != "off":
        raise InputError(
            f"{source}: memory: {campaign.memory} favours systems that were tuned before; the valid value for"
            " a comparison is off"
        )
    for key in ("presets", "priors"):
        if getattr(campaign, key):
            raise InputError(
                f"{source}: {key}: true favours systems that somebody tuned before; the valid value for a"
                " comparison is false"
            )
    if campaign.budget.stop is not None:
        raise InputError(
            f"{source}: budget: stop lets searches end at different budgets; leave it out of a comparison"
        )
    if campaign.budget.short_runs is not None:
        raise InputError(
            f"{source}: budget: short_runs makes some trials shorter than others, so that budgets are"
            " not equal; leave it out of a comparison"
        )
    if len(campaign.systems) < LEAST_SYSTEMS:
        raise InputError(f"{source}: systems: one system is nothing to compare; name {LEAST_SYSTEMS} or more")
