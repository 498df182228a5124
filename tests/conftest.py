"""For all tests: nothing phones home, and Ctrl-C reaches the commands that tests start."""

from __future__ import annotations

import os
import signal

os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
os.environ["DO_NOT_TRACK"] = "true"

# What a shell starts in the background ignores Ctrl-C, and so would everything that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
