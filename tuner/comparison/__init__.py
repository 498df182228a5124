"""Fair comparison: systems ranked at default and at each one's tuned optimum, at equal budgets."""

from __future__ import annotations

DOCUMENT = "comparison.json"
"""Where the result lies as data, in the folder of its campaign."""
