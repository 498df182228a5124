"""The gallery as files: one for each system, each written whole or not at all."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from tiertune.files import PACKAGED, InputError
from tiertune.tuner.gallery.definition import FOLDER, Gallery, load_gallery
from tiertune.tuner.report.files import write_whole
from tiertune.units import format_size

HEAD = "# Written by `tiertune gallery`, which also says what is stale: tiertune gallery --check\n"


def places(results: Path, given: Path | None) -> list[Path]:
    """Where galleries lie: in a folder that was named, else in the results and beside the program."""
    return [given] if given is not None else [results / FOLDER, PACKAGED / FOLDER]


def paths_in(place: Path) -> list[Path]:
    """Files of a gallery, which a single file may stand for."""
    return [place] if place.is_file() else sorted(place.glob("*.yaml"))


def galleries_of(system: str, folders: Sequence[Path]) -> list[Gallery]:
    """The files of a system, those of earlier folders first. Raises `InputError`."""
    paths = [path for place in folders for path in paths_in(place) if path.stem == system or place.is_file()]
    return [found for found in (load_gallery(str(path)) for path in paths) if found.name == system]


def write_galleries(folder: Path, galleries: Sequence[Gallery]) -> list[Path]:
    """Makes the folder hold these; files of systems that are no longer there go.

    Raises `InputError`, before anything is written, where the folder holds files that are no gallery's.
    """
    texts = {f"{gallery.name}.yaml": text_of(gallery) for gallery in galleries}
    old = [path for path in folder.glob("*.yaml") if path.name not in texts]
    for path in old:
        if not path.read_text(encoding="utf-8").startswith(HEAD):
            raise InputError(f"{path}: not written by tiertune gallery; name another folder, or move it away")
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        write_whole(folder / name, text)
    for path in old:
        path.unlink()
    return [folder / name for name in texts]


def text_of(gallery: Gallery) -> str:
    """The file as text; equal galleries give equal text, which reads back as the same."""
    document = gallery.model_dump(mode="json", exclude_none=True)
    for entry in document["entries"]:
        entry["page_size"] = format_size(entry["page_size"])
    return HEAD + yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


class _Dumper(yaml.SafeDumper):
    """Quotes all that our reader, which follows YAML 1.2, would take for a number where YAML 1.1 has text."""

    def ignore_aliases(self, data: Any) -> bool:
        """A file says things as often as they are."""
        return True


_NUMBER_LIKE = re.compile(r"[-+.0-9]")


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    style = "|" if "\n" in text else '"' if _NUMBER_LIKE.match(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _list(dumper: yaml.SafeDumper, items: list[Any]) -> yaml.Node:
    """Numbers beside each other: runs by seed would take most of a file's lines."""
    numbers = bool(items) and all(item is None or isinstance(item, int | float) for item in items)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=numbers)


_Dumper.add_representer(str, _text)
_Dumper.add_representer(list, _list)
