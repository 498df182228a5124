"""What a transfer test came to, as plain data: all that reports, tables and `--json` print."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from operator import and_
from statistics import median
from typing import Any

import numpy as np

from tiertune.tuner.comparison.inference import ALPHA, chance, holm
from tiertune.tuner.statistics import MIN_EFFECT, MIN_PAIRS, interval
from tiertune.tuner.transfer.candidate import DEFAULT
from tiertune.tuner.transfer.context import complete
from tiertune.tuner.transfer.feature import FEATURES
from tiertune.tuner.transfer.gain import Gain
from tiertune.tuner.transfer.leaving_out import ONE
from tiertune.tuner.transfer.portfolio import properties_of
from tiertune.tuner.transfer.prediction import Prediction
from tiertune.tuner.transfer.study import CHOICE_SEEDS, Study
from tiertune.tuner.trial import Config

Data = dict[str, Any]
OWN = "tuned for itself"
NOTHING = "nothing to carry"
"""Status of transfers from a context in which the default is the best that is known."""


def study_document(study: Study) -> Data:
    """One system's study; contexts are numbered from 1, as people count."""
    everyone = range(len(study.contexts))
    matrix = [
        {"from": origin + 1, "to": to + 1, **_transferred(study, origin, to)}
        for origin in everyone
        for to in everyone
    ]
    summary = _summary(study, matrix)
    robust = [
        {"aim": aim, **_configuration(study, row), **_over_contexts(study, [row] * len(study.contexts))}
        for aim, row in study.robust.items()
    ]
    document: Data = {
        "system": study.contexts[0].system,
        "space": study.contexts[0].space,
        "name": study.name,
        "seeds": {"choice": CHOICE_SEEDS, "judgement": study.settings.seeds},
        "candidates": len(study.candidates),
        "contexts": [_context(study, number) for number in everyone],
        "matrix": matrix,
        "summary": summary,
        "prediction": _prediction(study.prediction),
        "robust": robust,
        "portfolio": _portfolio(study),
        "left_out": _left_out(study),
    }
    return {**document, "verdict": _verdict(summary, study.name), "advice": _advice(document)}


def _context(study: Study, number: int) -> Data:
    context = study.contexts[number]
    properties = properties_of(context)
    return {
        "number": number + 1,
        "label": study.labels[number],
        "campaign": context.campaign,
        "cell": context.cell,
        **context.words,
        "features": {feature.name: properties[feature.name] for feature in FEATURES},
        "improved": context.improved,
        "native": _figures(study.native(number)),
        "changed_knobs": changed_knobs(context.system, context.tuned),
    }


def changed_knobs(system: str, config: Config) -> Config:
    """The knobs that a complete config has off their default."""
    default = complete(system, {})
    return {name: value for name, value in config.items() if value != default[name]}


def _figures(gain: Gain) -> Data:
    """Ratio to default with its interval, or why there is none."""
    if gain.effect is None:
        return {"status": "failed", "ratio": None, "low": None, "high": None, "reason": gain.reason}
    effect = gain.effect
    figures = {"ratio": effect.ratio, "low": effect.low, "high": effect.high}
    return {"status": "measured", **figures, "improved": effect.improved, "pairs": effect.pairs}


def _transferred(study: Study, origin: int, to: int) -> Data:
    """What was tuned in one context, run in another."""
    cell = _cell(study, study.tuned[origin], to)
    if study.contexts[origin].improved:
        return cell
    return {**dict.fromkeys(cell), "status": NOTHING, "reason": "nothing better than the default was found"}


def _cell(study: Study, row: int, to: int) -> Data:
    share = study.share(row, to)
    figures: Data = {"share": None, "share_low": None, "share_high": None}
    if share is not None:
        figures = {"share": share.share, "share_low": share.low, "share_high": share.high}
    return {**_figures(study.gains[row, to]), **figures}


def _summary(study: Study, matrix: Sequence[Data]) -> Data:
    moved = [cell for cell in matrix if cell["from"] != cell["to"] and cell["status"] != NOTHING]
    measured = [cell for cell in moved if cell["status"] == "measured"]
    shares = [cell["share"] for cell in measured if cell["share"] is not None]
    native = [study.native(number).effect for number in range(len(study.contexts))]
    better, worse = _by_themselves(measured)
    # Of many transfers that are as good as the default, some seem better or worse by luck.
    by_seed = [study.gains[study.tuned[cell["from"] - 1], cell["to"] - 1].by_seed for cell in measured]
    told_apart = [p < ALPHA for p in holm([chance(gains) for gains in by_seed])]
    return {
        "transfers": len(moved),
        "failed": len(moved) - len(measured),
        "better_than_default": sum(map(and_, better, told_apart)),
        "better_by_themselves": sum(better),
        "worse_than_default": sum(map(and_, worse, told_apart)),
        "worse_by_themselves": sum(worse),
        "contexts": len(study.contexts),
        "contexts_with_a_gain": sum(effect is not None and effect.improved for effect in native),
        "median_share": median(shares) if shares else None,
        "worst_ratio": min((cell["ratio"] for cell in measured), default=None),
    }


def _by_themselves(cells: Sequence[Data]) -> tuple[list[bool], list[bool]]:
    """Which measured cells are better than the default by what counts, and which worse, each judged alone."""
    worse = [cell["high"] < 1.0 and cell["ratio"] * (1.0 + MIN_EFFECT) <= 1.0 for cell in cells]
    return [bool(cell["improved"]) for cell in cells], worse


def _configuration(study: Study, row: int) -> Data:
    candidate = study.candidates[row]
    system = study.contexts[0].system
    return {
        "candidate": candidate.name,
        "found_in": [study.labels[origin] for origin in sorted(candidate.origins)],
        "changed_knobs": changed_knobs(system, candidate.config),
    }


def _over_contexts(study: Study, rows: Sequence[int]) -> Data:
    """A row (candidate) for each context: its figures there, and over all what it costs against native."""
    contexts = [
        {"to": to + 1, "candidate": study.candidates[row].name, **_cell(study, row, to)}
        for to, row in enumerate(rows)
    ]
    return {"contexts": contexts, **_aggregate(study, list(enumerate(rows)))}


def _aggregate(study: Study, pairs: Sequence[tuple[int, int]]) -> Data:
    """Means over (context, candidate) pairs. Ratios are geometric; intervals are over contexts, and there are
    none for fewer than `MIN_PAIRS` of them."""
    gains = [study.gains[row, to] for to, row in pairs]
    failed = sum(gain.effect is None for gain in gains)
    if failed:
        return {"failed": failed, "mean": None, "worst": None, "share": None, "price": None, "worse": None}
    logs = np.array([gain.log for gain in gains])
    native = np.array([study.native(to).log for to, _ in pairs])
    return {
        "failed": 0,
        "mean": _mean(logs),
        "worst": math.exp(float(logs.min())),
        "worst_in": pairs[int(logs.argmin())][0] + 1,
        "share": float(logs.sum() / native.sum()) if native.sum() > 0 else None,
        "price": _mean(native - logs),
        "worse": sum(gain.effect is not None and gain.effect.high < 1.0 for gain in gains),
    }


def _mean(logs: np.ndarray) -> Data:
    low, high = interval(logs) if len(logs) >= MIN_PAIRS else (None, None)
    ends = [None if end is None else math.exp(end) for end in (low, high)]
    return {"ratio": math.exp(float(logs.mean())), "low": ends[0], "high": ends[1]}


def _portfolio(study: Study) -> Data:
    rows = [0] * len(study.contexts)
    for leaf in study.leaves:
        for to in leaf.contexts:
            rows[to] = leaf.candidate
    return {
        "size": len(study.leaves),
        "asked_for": study.settings.portfolio,
        "aim": study.settings.aim,
        "leaves": [
            {
                "rule": leaf.rule,
                **_configuration(study, leaf.candidate),
                "contexts": [to + 1 for to in leaf.contexts],
            }
            for leaf in study.leaves
        ],
        "with_the_rule": _over_contexts(study, rows),
        "best_member_always": _aggregate(study, list(enumerate(study.best_members))),
    }


def _left_out(study: Study) -> list[Data]:
    """For each kind of leaving out and each way of choosing: what came of it in the contexts left out."""
    lines = []
    for left_out in dict.fromkeys(pick.left_out for pick in study.picks):
        mine = [pick for pick in study.picks if pick.left_out == left_out]
        ways: Iterable[tuple[str, list[tuple[int, int]]]] = [
            (OWN, [(pick.context, study.tuned[pick.context]) for pick in mine]),
            *((way, [(pick.context, pick.by_way[way]) for pick in mine]) for way in mine[0].by_way),
        ]
        for way, pairs in ways:
            contexts = [
                {"to": to + 1, "candidate": study.candidates[row].name, **_cell(study, row, to)}
                for to, row in pairs
            ]
            lines.append({"left_out": left_out, "way": way, **_aggregate(study, pairs), "contexts": contexts})
    return lines


def _prediction(prediction: Prediction) -> Data:
    return {
        "told": prediction.told,
        "contexts": prediction.contexts,
        "transfers": prediction.transfers,
        "explained": prediction.explained,
        "features": [vars(predictor) for predictor in prediction.predictors],
    }


def _verdict(summary: Data, name: str) -> str:
    """What carries over, in a sentence."""
    if not summary["contexts_with_a_gain"]:
        return (
            f"{name}: tuning gained nothing in any of {summary['contexts']} contexts, so nothing carries over"
        )
    rest = f"{summary['worse_than_default']} of {summary['transfers']} transfers are worse than the default"
    if summary["failed"]:
        rest += f", {summary['failed']} failed"
    if summary["median_share"] is None:
        return f"{name}: {rest}; there was no gain elsewhere of which to keep a share"
    kept = f"keeps {_percent(summary['median_share'])} of the gain elsewhere (median)"
    return f"{name}: what is tuned in one context {kept}; {rest}"


def _advice(document: Data) -> str:
    """What one configuration for all and the portfolio are worth, in a sentence; empty without any gain."""
    portfolio = document["portfolio"]
    aim, size = portfolio["aim"], portfolio["size"]
    robust = next(one for one in document["robust"] if one["aim"] == aim)
    if robust["share"] is None or not document["summary"]["contexts_with_a_gain"]:
        return ""
    default = " (the default)" if robust["candidate"] == DEFAULT else ""
    key = "mean" if aim == "mean" else "worst case"
    said = (
        f"one configuration for all{default} has {_percent(robust['share'])} of what tuning each gains"
        f"{_unseen(document, key)}"
    )
    if size > 1 and portfolio["with_the_rule"]["share"] is not None:
        share = _percent(portfolio["with_the_rule"]["share"])
        said += f"; {size} with a rule that picks one have {share}{_unseen(document, 'portfolio')}"
    return said


def _unseen(document: Data, key: str) -> str:
    """The share in contexts left out one at a time, for the way whose name has `key` in it."""
    shares = [
        line["share"] for line in document["left_out"] if key in line["way"] and line["left_out"] == ONE
    ]
    return (
        f" ({_percent(shares[0])} in contexts left out of the choice)"
        if shares and shares[0] is not None
        else ""
    )


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"
