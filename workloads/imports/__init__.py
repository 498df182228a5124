"""What other tools recorded, read as profiles: `perf script`, DAMON, configurations of masim."""
