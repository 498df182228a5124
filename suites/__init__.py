"""Ready suites; data only."""
