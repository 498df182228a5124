"""Whether figures were measured by what runs now."""

from __future__ import annotations

from dataclasses import dataclass

from tiertune import __version__, engine
from tiertune.tuner.gallery.definition import MadeBy


@dataclass(frozen=True)
class Now:
    """What runs now."""

    tiertune: str
    engine: str
    build: str


def now() -> Now:
    """Versions of this installation."""
    return Now(__version__, engine.version(), engine.sources())


def staleness(made: MadeBy, here: Now) -> str:
    """Why figures may be others today, as a clause; empty where the very same engine measured them."""
    if (made.tiertune, made.engine) != (here.tiertune, here.engine):
        was, is_now = (f"tiertune {one.tiertune} with engine {one.engine}" for one in (made, here))
        return f"measured by {was}, this is {is_now}"
    if not made.builds:
        return f"nothing says by which sources of engine {made.engine} it was measured"
    if made.builds != [here.build]:
        builds = " and ".join(made.builds)
        return f"measured by engine {made.engine} of sources {builds}, this one is of {here.build}"
    return ""
