"""Ready claims; data only."""
