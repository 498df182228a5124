"""Who proposes configurations: SMAC, and random search as its yardstick."""
