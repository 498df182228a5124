"""How every report is rendered: one layout, values escaped, a value that is missing is an error."""

from __future__ import annotations

import math
import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

from tiertune import __version__

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

FOLDER = "templates"


class Figure(NamedTuple):
    """A figure of a page; `csv` is the data behind it, `file` the name under which a reader saves them."""

    name: str
    title: str
    caption: str
    svg: str
    csv: str
    file: str


def report_environment() -> Environment:
    """A Jinja environment of its own, to which a report adds its filters; pages extend `base.html.j2`."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    from tiertune import engine
    from tiertune.tuner.report import numbers
    from tiertune.tuner.report.palette import palette_css
    from tiertune.tuner.report.plain import csv_address

    environment = Environment(
        loader=PackageLoader("tiertune.tuner.report", FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(
        asset=asset,
        palette_css=palette_css,
        td=td,
        made_by={"tiertune": __version__, "engine": engine.version()},
        quantity=numbers.quantity,
    )
    environment.filters.update(
        contents=contents,
        csv_address=csv_address,
        exact=numbers.exact,
        number=numbers.number,
        sentence=sentence,
    )
    return environment


@cache
def asset(name: str) -> Markup:
    """A file beside the templates as it is, for what goes into a page whole: the style sheet, the script."""
    from markupsafe import Markup

    text = (files("tiertune.tuner.report") / FOLDER / name).read_text(encoding="utf-8")
    return Markup(text)


def td(value: float | None, text: str, classes: str = "n") -> Markup:
    """A table cell that shows `text` and is sorted by `value`; what is not known comes last."""
    from markupsafe import Markup

    known = value is not None and math.isfinite(value)
    return Markup('<td class="{}" data-value="{}">{}</td>').format(classes, value if known else "", text)


def contents(page: str) -> list[tuple[str, str]]:
    """Ids and words of the sections of a page, from their headings, so that the list cannot lack one.

    A heading of class `unlisted` is left out.
    """
    from markupsafe import Markup

    found = re.findall(r'<h2 id="([^"]+)">(.*?)</h2>', page, flags=re.DOTALL)
    return [(name, Markup(words).striptags()) for name, words in found]


def sentence(text: str) -> str:
    """`text` with a capital at its beginning."""
    return text[:1].upper() + text[1:]
