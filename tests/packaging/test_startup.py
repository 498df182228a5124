"""What the command line loads before it knows what it is asked to do."""

from __future__ import annotations

import subprocess
import sys

# Each costs between a tenth of a second and several seconds; the commands that need them import them.
HEAVY = ("smac", "ConfigSpace", "mlflow", "sklearn", "optuna", "scipy", "pandas", "matplotlib", "pyarrow")


def test_the_command_line_loads_no_heavy_library() -> None:
    script = "import sys, tiertune.tuner.cli\nprint(*(name for name in sys.argv[1:] if name in sys.modules))"
    command = [sys.executable, "-c", script, *HEAVY]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == []
