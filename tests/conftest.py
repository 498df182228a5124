"""For all tests: nothing phones home, Ctrl-C reaches the commands that tests start, and examples are the same
in every run."""

from __future__ import annotations

import os
import signal

from hypothesis import settings

os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
os.environ["DO_NOT_TRACK"] = "true"

# What a shell starts in the background ignores Ctrl-C, and so would everything that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# `make test PROPERTY_SEED=` draws others.
settings.register_profile("same", derandomize=True)
if os.environ.get("PROPERTY_SEED", "1"):
    settings.load_profile("same")
