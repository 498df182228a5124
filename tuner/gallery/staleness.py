"""Whether figures were measured by what runs now."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tiertune import __version__, engine
from tiertune.tuner.gallery.definition import Confirmed, MadeBy

CODE_DIGITS = 16
"""Digits that tell versions of a policy's file apart."""


@dataclass(frozen=True)
class Now:
    """What runs now. `code` is the digest of a system's file, where that is a policy written in Python."""

    tiertune: str
    engine: str
    build: str
    code: str | None = None

    def of(self, system: str) -> Now:
        """What `system` is now."""
        code = engine.registered().get(system)
        return replace(self, code=None if code is None else code[:CODE_DIGITS])

    @property
    def confirmation(self) -> Confirmed:
        """What a file holds of figures that are the same today."""
        return Confirmed(tiertune=self.tiertune, engine=self.engine, build=self.build, code=self.code)


def now() -> Now:
    """Versions of this installation."""
    return Now(__version__, engine.version(), engine.sources())


def staleness(made: MadeBy, here: Now) -> str:
    """Why figures may be others today, as a clause; empty where the very same engine and system measured
    them, now or again."""
    if made.confirmed == here.confirmation:
        return ""
    if (made.tiertune, made.engine) != (here.tiertune, here.engine):
        was, is_now = (f"tiertune {one.tiertune} with engine {one.engine}" for one in (made, here))
        return f"measured by {was}, this is {is_now}"
    if not made.builds:
        return f"nothing says by which sources of engine {made.engine} it was measured"
    if made.builds != [here.build]:
        builds = " and ".join(made.builds)
        return f"measured by engine {made.engine} of sources {builds}, this one is of {here.build}"
    if made.code != here.code:
        was, is_now = (
            f"version {one.code} of its file" if one.code else "the engine's own" for one in (made, here)
        )
        return f"measured with {was}, this is {is_now}"
    return ""
