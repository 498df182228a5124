"""Ready sweeps; data only."""
