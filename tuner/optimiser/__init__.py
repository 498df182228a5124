"""Who proposes configurations: SMAC, Optuna's TPE, both in turns, and random search as their yardstick."""
