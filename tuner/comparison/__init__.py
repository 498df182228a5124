"""Fair comparison: systems ranked at default and at each one's tuned optimum, at equal budgets."""
