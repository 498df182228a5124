"""`python -m tests.fuzz --seconds 120 damon`: coverage-guided fuzzing with atheris (libFuzzer)."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any


def main() -> None:
    """Fuzzes one target; the process ends with libFuzzer's exit code, 0 when nothing was found."""
    import atheris

    with atheris.instrument_imports(include=["tiertune.workloads", "tiertune.files", "tiertune.mistakes"]):
        from tests.fuzz import targets
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("target", choices=targets.TARGETS)
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--keep", type=Path, help="folder for inputs that reach new code")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder, "input")
        begin = Path(folder, "seeds")
        begin.mkdir()
        seeds = targets.seeds(asked.target, scratch)
        for number, seed in enumerate(seeds):
            (begin / str(number)).write_bytes(seed)
        keep = asked.keep or Path(folder, "new")
        keep.mkdir(parents=True, exist_ok=True)
        kept = targets.KEPT / asked.target
        folders = [str(place) for place in (keep, begin, kept) if place.is_dir()]
        # Ten seconds for one input count as a hang.
        limits = ["-timeout=10", "-rss_limit_mb=4096", f"-max_total_time={asked.seconds}", "-max_len=16384"]

        def one(data: bytes) -> Any:
            return targets.run(asked.target, data, scratch)

        def changed(data: bytes, most: int, seed: int) -> bytes:
            # libFuzzer does not see what the engine tells apart, so it keeps few inputs.
            base = data if seed % 4 == 0 else seeds[seed % len(seeds)]
            return targets.changed(base, seed)[:most]

        # The engine is not instrumented and checks JSON first, so metadata is changed as the JSON that it is.
        how = {"custom_mutator": changed} if asked.target == "metadata" else {}
        atheris.Setup([sys.argv[0], *limits, "-print_final_stats=1", *folders], one, **how)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
