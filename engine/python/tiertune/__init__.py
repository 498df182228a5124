"""tiertune finds, checks and compares the best settings of memory-tiering systems."""

__version__ = "0.1.0"
