"""Ready campaigns; data only."""
