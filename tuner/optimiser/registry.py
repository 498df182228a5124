"""Which optimisers there are. Modules are imported when asked for: SMAC alone takes seconds."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tiertune.tuner.optimiser.base import Optimiser

OPTIMISERS = {
    "smac": "tiertune.tuner.optimiser.smac:SmacOptimiser",
    "portfolio": "tiertune.tuner.optimiser.portfolio:PortfolioOptimiser",
    "tpe": "tiertune.tuner.optimiser.tpe:TpeOptimiser",
    "random": "tiertune.tuner.optimiser.random:RandomOptimiser",
}


def optimiser_class(name: str) -> type[Optimiser]:
    """The class called `name` in campaign files. Raises KeyError; campaign files are checked before."""
    module, _, attribute = OPTIMISERS[name].partition(":")
    loaded: type[Optimiser] = getattr(import_module(module), attribute)
    return loaded
