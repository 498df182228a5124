"""The part of a cell that says where its trials ran."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tiertune.tuner.host_effect import host_effect
from tiertune.tuner.journal import Row
from tiertune.tuner.report.document import HostGain, HostPart, HostRun
from tiertune.tuner.trial import Objective
from tiertune.tuner.validation import Outcome, host_gains


def host_part(rows: Sequence[Row], judged: Outcome, objective: Objective, live: bool) -> HostPart | None:
    """Who ran which of `rows`; None where all ran in the process of the campaign."""
    runs = [
        HostRun(
            purpose=row.trial.purpose,
            number=row.trial.number,
            origin=row.trial.origin,
            host=row.worker,
            status=row.status.value,
            value=None if row.cost is None else objective.value(row.cost),
        )
        for row in rows
        if row.worker is not None
    ]
    if not runs:
        return None
    # What a simulated trial comes to does not depend on who computes it.
    gains = host_gains(list(zip(judged.default_rows, judged.winner_rows, strict=True))) if live else []
    over = host_effect([gain for _, gain in gains], [host for host, _ in gains])
    by_host: dict[str, list[float]] = {}
    for host, gain in gains:
        by_host.setdefault(host, []).append(gain)
    return HostPart(
        live=live,
        runs=runs,
        gains=[
            HostGain(host=host, pairs=len(values), ratio=math.exp(sum(values) / len(values)))
            for host, values in sorted(by_host.items())
        ],
        between_pct=None if over is None else 100.0 * over.between_sd,
        within_pct=None if over is None else 100.0 * over.within_sd,
        note=_note(live, len(by_host), over is not None and over.pooled),
    )


def _note(live: bool, hosts: int, pooled: bool) -> str:
    if not live:
        return "Simulated on workers: who computes a trial does not change it."
    if hosts < 2:
        return "Validated on one host: what another one would say is not known."
    if pooled:
        return "Gains differ no more between hosts than between pairs of one: the interval is over pairs."
    return "Gains differ between hosts: the interval is over hosts, as for one that was not measured."
