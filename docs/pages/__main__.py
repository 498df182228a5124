"""`make docs`: stage the pages, build the site, say where it is. Usage: python -m docs.pages FOLDER"""

from __future__ import annotations

import sys
from pathlib import Path

from docs.pages.links import LinkError
from docs.pages.staging import stage


def main(folder: Path) -> int:
    """Builds the site in `folder`/html from `folder`/source; Sphinx's warnings are errors."""
    from sphinx.cmd.build import main as sphinx

    try:
        outside = stage(folder / "source")
    except LinkError as error:
        print(f"docs: {error}", file=sys.stderr)
        return 1
    (folder / "external-links.txt").write_text("".join(f"{link}\n" for link in outside), encoding="utf-8")
    html = folder / "html"
    settings = Path(__file__).resolve().parents[1]
    arguments = ["-b", "html", "-q", "-W", "--keep-going", "-c", str(settings)]
    failed = sphinx([*arguments, "-d", str(folder / "doctrees"), str(folder / "source"), str(html)])
    if failed:
        print("docs: the site was not built; every line above is one mistake", file=sys.stderr)
        return 1
    print(f"{html / 'index.html'}; links to other sites are not followed: {folder / 'external-links.txt'}")
    return 0


sys.exit(main(Path(sys.argv[1])))
