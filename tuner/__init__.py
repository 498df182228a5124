"""The tuner: campaigns, the loop, the journal, statistics and the command line."""

from __future__ import annotations

from tiertune.arithmetic import settle

settle()
