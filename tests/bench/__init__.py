"""Benchmarks: the project's promises, measured on this machine."""
