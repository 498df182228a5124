"""The way from a trial to its MLflow run."""

from __future__ import annotations

import shlex
from html import escape
from typing import Any

from tiertune.files import InputError
from tiertune.tuner.explorer.folder import Results
from tiertune.tuner.explorer.problem import UNREADABLE, sentence_of
from tiertune.tuner.explorer.tracking import address_of, answers, run_of, tracking_of
from tiertune.tuner.explorer.view import opened, trial_number
from tiertune.tuner.report.palette import palette_css
from tiertune.tuner.trial import Purpose

PAGE = """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>MLflow run · tiertune</title>
<style>{colours}</style><link rel="stylesheet" href="/assets/explorer.css"></head>
<body><main><h1>MLflow run</h1><p>{text}</p>{more}<p><a href="/">All campaigns</a></p></main></body></html>"""


class _NoAnswer(Exception):
    """MLflow cannot be asked."""


def redirect_to_run(
    results: Results, pages: str | None, campaign: str, number: str, purpose: Purpose, trial: str
) -> Any:
    """Sends the browser to the run; where there is none, or MLflow's pages are not up, a page says what to
    do."""
    import flask

    try:
        found = _run(results, campaign, number, purpose, trial)
    except (InputError, _NoAnswer) as error:
        return _said(str(error)), 502 if isinstance(error, _NoAnswer) else 404
    except UNREADABLE as error:
        return _said(sentence_of(error, flask.request.path)), 404
    if isinstance(found, str):
        return _said(found), 404
    uri, experiment, run = found
    address = address_of(uri, pages, experiment, run)
    if answers(address):
        return flask.redirect(address)
    folder = escape(shlex.quote(str(results.path)))
    more = (
        f'<p>Its page is <a href="{escape(address)}">{escape(address)}</a>, where nothing listens.'
        f" This starts one:</p><pre>$(tiertune ui --mlflow --results {folder})</pre>"
    )
    return _said(f"The run is {run} of experiment {experiment}.", more), 200


def _run(
    results: Results, campaign: str, number: str, purpose: Purpose, trial: str
) -> tuple[str, str, str] | str:
    """Tracking address, experiment and run; or why there is none."""
    with opened(results, campaign, number) as cell:
        claim = cell.claim
        identity = trial_number(trial)
        row = None if identity is None else cell.journal.row(cell.key, purpose, identity)
    if row is None:
        raise InputError(f"cell {number} of {campaign} has no {purpose} trial {trial}")
    tracking = tracking_of(results.path / campaign, results.path)
    if tracking is None:
        return f"Campaign {campaign} is not tracked: its file says mlflow: false, or the store is gone."
    try:
        run = run_of(*tracking, claim, row.trial.key)
    except Exception as error:  # whatever a tracking server does
        raise _NoAnswer(f"MLflow did not answer: {type(error).__name__}: {error}") from error
    if run is None:
        return f"MLflow has no run of {row.trial.key} yet; `tiertune resume {campaign}` sends what is owed."
    return tracking[0], *run


def _said(text: str, more: str = "") -> str:
    return PAGE.format(colours=palette_css(), text=escape(text), more=more)
