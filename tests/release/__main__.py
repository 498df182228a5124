"""`make release`: python -m tests.release DIST VENV"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.release.artefacts import release
from tests.release.bill import BillError
from tests.release.binaries import BinaryError
from tests.release.licences import LicenceError
from tests.release.wheels import WheelError


def main(dist: Path, venv: Path) -> int:
    """Prints what was made, or every reason why nothing may be released."""
    try:
        glibc = release(dist, venv)
    except (LicenceError, BillError, BinaryError, WheelError) as error:
        for line in str(error).splitlines():
            print(f"release: {line}", file=sys.stderr)
        return 1
    for path in sorted(dist.iterdir()):
        print(f"{path.stat().st_size / 2**20:8.2f} MiB  {path}")
    print(f"the engine's wheel needs glibc {glibc} or newer; the programs need none")
    return 0


sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
