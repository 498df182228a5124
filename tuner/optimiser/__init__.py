"""Who proposes configurations: SMAC, Optuna's TPE, and random search as their yardstick."""
