"""tiertune finds, checks and compares the best settings of memory-tiering systems."""

from __future__ import annotations

__version__ = "0.1.0"
