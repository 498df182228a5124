"""From an address to its page, and to the files that the page is made from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qsl, unquote

from tiertune.files import InputError
from tiertune.tuner.comparison import DOCUMENT as COMPARISON
from tiertune.tuner.explorer.folder import EXPLANATION, JOURNAL, stamp
from tiertune.tuner.explorer.page import Page
from tiertune.tuner.explorer.pages.campaign import campaign_page
from tiertune.tuner.explorer.pages.campaigns import campaigns_page
from tiertune.tuner.explorer.pages.cell import progress_page
from tiertune.tuner.explorer.pages.comparison import comparison_page
from tiertune.tuner.explorer.pages.knobs import knobs_page
from tiertune.tuner.explorer.pages.memory import memory_page
from tiertune.tuner.explorer.pages.nights import nights_page
from tiertune.tuner.explorer.pages.transfer import transfer_page
from tiertune.tuner.explorer.pages.trials import trial_page, trials_page
from tiertune.tuner.explorer.problem import UNREADABLE, sentence_of
from tiertune.tuner.explorer.running import is_running
from tiertune.tuner.explorer.view import View


def page_of(view: View, path: str, search: str = "") -> Page:
    """The page at an address. What cannot be shown becomes a page with a sentence: journals come and go."""
    try:
        return _page(view, parts_of(path), dict(parse_qsl(search.lstrip("?"))))
    except UNREADABLE as error:
        return problem_page(sentence_of(error, path))


def problem_page(sentence: str) -> Page:
    """Why there is nothing to see."""
    from dash import html

    return Page("Not shown", [html.H1("Not shown"), html.P(sentence, className="problem", role="alert")])


def parts_of(path: str) -> list[str]:
    """The parts of an address, unescaped."""
    return [unquote(part) for part in path.split("/") if part]


def stamp_of(view: View, path: str) -> str:
    """A text that changes when the page at this address would."""
    parts = parts_of(path)
    results = view.results.path
    if not parts:
        journals = [results / name / JOURNAL for name in sorted(view.results.campaigns())]
        state = [f"{one.parent.name}{is_running(one)}" for one in journals]
        others = [*view.results.comparisons(), *view.results.transfers(), *view.results.suites()]
        return " ".join([stamp(*journals), *state, *others])
    if parts[0] == "campaign" and len(parts) > 1 and parts[1] in view.results.campaigns():
        folder: Path = results / parts[1]
        files = [folder / name for name in (JOURNAL, EXPLANATION, COMPARISON)]
        return f"{stamp(*files)} {is_running(folder / JOURNAL)}"
    return ""


def _page(view: View, parts: list[str], asked: Mapping[str, str]) -> Page:
    match parts:
        case []:
            return campaigns_page(view)
        case ["campaign", name]:
            several = len(_cells(view, name)) > 1
            return campaign_page(view, name) if several else progress_page(view, name, "1")
        case ["campaign", name, number]:
            return progress_page(view, name, number)
        case ["campaign", name, number, "trials"]:
            return trials_page(view, name, number)
        case ["campaign", name, number, "knobs"]:
            return knobs_page(view, name, number, asked)
        case ["campaign", name, number, "memory"]:
            return memory_page(view, name, number)
        case ["campaign", name, number, "trial", purpose, trial]:
            return trial_page(view, name, number, purpose, trial)
        case ["comparison", name]:
            return comparison_page(view, name)
        case ["transfer", *names] if names:
            return transfer_page(view, "/".join(names))
        case ["nights", suite]:
            return nights_page(view, suite)
    raise InputError(f"there is no page /{'/'.join(parts)}; the first one is /")


def _cells(view: View, name: str) -> list[str]:
    from tiertune.tuner.journal import Journal

    with Journal(view.results.journal(name), writer=False) as journal:
        return list(journal.claimed().document["cells"])
