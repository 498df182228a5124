"""Prints the proposals of a campaign with all models as JSON: run in processes of their own by
`test_traps.py`."""

from __future__ import annotations

import json

from tests.contracts.optimiser import campaign
from tests.tuner import surfaces
from tiertune.tuner.optimiser.base import Settings
from tiertune.tuner.optimiser.portfolio import PortfolioOptimiser

if __name__ == "__main__":
    optimiser = PortfolioOptimiser(surfaces.space(), Settings(11, 6, 0.2))
    print(json.dumps([proposal.config for proposal in campaign(optimiser, 18)]))
