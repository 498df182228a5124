"""The `tiertune` command."""

from __future__ import annotations

from tiertune.tuner.cli.app import main

__all__ = ["main"]
