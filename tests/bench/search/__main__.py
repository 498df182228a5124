"""`make bench-search`: races, then figures and tables of docs/search.md. See `--help`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path


def main() -> int:
    """The command."""
    # Small matrices: threads of a linear algebra library only wait for each other.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    parser = argparse.ArgumentParser(prog="make bench-search", description=__doc__)
    parser.add_argument("--processes", type=int, default=2)
    parts = parser.add_subparsers(dest="part", required=True)
    optima = parts.add_parser("optima", help="find the near-optima afresh")
    optima.add_argument("cells", nargs="*")
    races = parts.add_parser("race", help="run searches")
    races.add_argument("--variants", default="")
    races.add_argument("--seeds", type=int, default=3)
    races.add_argument("--cells", default="")
    races.add_argument("--store", type=Path, default=Path("results/bench-search/races.jsonl"))
    page = parts.add_parser("page", help="write docs/search.md from searches that were made")
    page.add_argument("stores", nargs="+", type=Path)
    page.add_argument("--priors", action="store_true", help="only the part on good and bad priors")
    options = parser.parse_args()
    if options.part == "page":
        from tests.bench.search.page import write, write_priors
        from tests.bench.search.race import stored

        told = write_priors if options.priors else write
        told(list({race.key: race for path in options.stores for race in stored(path)}.values()))
    if options.part == "optima":
        from tests.bench.search.optimum import find_all

        find_all(options.processes, options.cells)
    if options.part == "race":
        from tests.bench.search.race import run_all
        from tests.bench.search.summary import print_summary
        from tests.bench.search.variants import VARIANTS

        variants = options.variants.split(",") if options.variants else list(VARIANTS)
        only = options.cells.split(",") if options.cells else []
        made = run_all(options.store, variants, options.seeds, options.processes, only)
        print_summary(made)
        if not options.variants and not options.cells:
            from tests.bench.search.page import write

            write(made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
