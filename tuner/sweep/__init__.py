"""Sweeps: a matrix of experiments measured row by row."""
