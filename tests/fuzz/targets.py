"""What is fuzzed: functions that take any bytes, and may only refuse them with an error of the project."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from tests.imports.corpus import READERS, ROOT
from tiertune import engine
from tiertune.files import InputError
from tiertune.workloads.anatomy import anatomy
from tiertune.workloads.imports import spans
from tiertune.workloads.imports.perf import read_perf
from tiertune.workloads.measured import NothingSeen, Sightings, profile_of
from tiertune.workloads.profile_file import UnreadableProfile, read_head, read_profile, write_profile

REFUSED = (InputError, NothingSeen, UnreadableProfile, engine.EngineError)
"""How a file may be turned down; any other exception, a panic of the engine included, is a finding."""

KEPT = Path(__file__).parent / "corpus"
"""Inputs that earlier runs found worth keeping; each is run by the tests, too."""

FEW_PAGES = 2**14
"""Footprint that imports may take here, so that a run is not spent on filling memory."""

CARRY = {"page_bytes": 2 << 20, "runs": 1}
MEASURED = Path(__file__).parents[1] / "configs/good/workload/measured.parquet"


@contextmanager
def small_memory() -> Iterator[None]:
    """Imports refuse what is larger than `FEW_PAGES`, as they refuse 256 GiB otherwise."""
    before = spans.MOST_PAGES
    spans.MOST_PAGES = FEW_PAGES
    try:
        yield
    finally:
        spans.MOST_PAGES = before


def _through_file(data: bytes, scratch: Path, read: Callable[[Path], object]) -> object:
    scratch.write_bytes(data)
    return read(scratch)


def _imported(kind: str) -> Callable[[bytes, Path], None]:
    def run(data: bytes, scratch: Path) -> None:
        # A first byte decides on what the command line would say.
        reader = READERS[kind]
        if kind == "perf-script" and data[:1] == b"p":
            data, reader = data[1:], lambda path: read_perf(path, 1009)
        found = _through_file(data, scratch, reader)
        if isinstance(found, Sightings):
            columns, metadata = profile_of(found)
            engine.EngineWorkload.from_profile(columns, metadata, CARRY, 1)

    return run


def _profile(data: bytes, scratch: Path) -> None:
    scratch.write_bytes(data)
    read_head(scratch)
    columns, metadata = read_profile(scratch)
    engine.EngineWorkload.from_profile(columns, metadata, CARRY, 1)
    anatomy(columns, metadata)


def _metadata(data: bytes, scratch: Path) -> None:
    """Metadata as text, then a zero byte and rows of nine small numbers: what no checksum keeps out."""
    text, _, rest = data.partition(b"\0")
    count = min(len(rest) // 9, 64)
    rows = np.frombuffer(rest[: 9 * count], dtype=np.uint8).reshape(count, 9)
    kinds = {"slice": "u4", "object": "u2", "class": "u1", "page": "u4"}
    counts = dict.fromkeys(("reads", "prefetched", "writebacks", "stores", "touches"), "u4")
    columns = {
        name: np.ascontiguousarray(rows[:, place]).astype(kind)
        for place, (name, kind) in enumerate({**kinds, **counts}.items())
    }
    engine.EngineWorkload.from_profile(columns, text.decode(errors="replace"), CARRY, 1)


TARGETS: dict[str, Callable[[bytes, Path], None]] = {
    **{kind: _imported(kind) for kind in READERS},
    "profile": _profile,
    "metadata": _metadata,
}


EXTREMES: tuple[Any, ...] = (
    0,
    1,
    -1,
    2**31,
    2**32,
    2**63,
    2**64,
    1e308,
    -0.5,
    1e-320,
    "",
    "a",
    None,
    True,
    [],
    {},
)


def changed(data: bytes, seed: int) -> bytes:
    """Metadata with one to three values replaced, left out or doubled, and rows with some bytes changed."""
    random = Random(seed)
    text, _, rows = data.partition(b"\0")
    try:
        document = json.loads(text)
    except ValueError:
        document = {}
    for _ in range(random.randint(1, 3)):
        places = list(_places(document))
        if places:
            owner, key = random.choice(places)
            what = random.random()
            if what < 0.15:
                del owner[key]
            elif what < 0.3 and isinstance(owner, list):
                owner.insert(0, json.loads(json.dumps(owner[key])))
            else:
                other, place = random.choice(places)
                owner[key] = random.choice(
                    (*EXTREMES, json.loads(json.dumps(other[place] if place in _keys(other) else 0)))
                )
    mixed = bytearray(rows)
    for _ in range(random.randint(0, 3)):
        if mixed:
            mixed[random.randrange(len(mixed))] = random.choice((0, 1, 2, 4, 5, 255))
    if random.random() < 0.1:
        mixed += bytes(random.randrange(4) for _ in range(9))
    return json.dumps(document).encode() + b"\0" + bytes(mixed)


def _keys(owner: Any) -> Iterable[Any]:
    return owner if isinstance(owner, dict) else range(len(owner))


def _places(owner: Any) -> Iterator[tuple[Any, Any]]:
    """Every mapping or list within, with each of its keys."""
    if isinstance(owner, dict | list):
        for key in list(_keys(owner)):
            yield owner, key
            yield from _places(owner[key])


def run(target: str, data: bytes, scratch: Path) -> None:
    """Runs one input; raises what is a finding. `scratch` is a file that may be overwritten."""
    with small_memory():
        try:
            TARGETS[target](data, scratch)
        except REFUSED:
            return


def seeds(target: str, scratch: Path) -> list[bytes]:
    """Inputs to begin with: files of the importers' tests, and small profiles."""
    if target in READERS:
        return [path.read_bytes() for path in sorted((ROOT / target).rglob("*.txt"))]
    columns, metadata = read_profile(MEASURED)
    kernel = {"kernel": "gups", "table_bytes": 1 << 20, "hot_bytes": 1 << 16, "updates": 500, "threads": 1}
    recorded, told = engine.record({**kernel, "llc_bytes": 4096})
    if target == "profile":
        few = {name: values[:50] for name, values in columns.items()}
        write_profile(scratch, few, metadata)
        small = scratch.read_bytes()
        write_profile(scratch, {name: values[:50] for name, values in recorded.items()}, told)
        return [small, scratch.read_bytes()]
    rows = bytes([0, 0, 1, 3, 9, 0, 1, 1, 9, 1, 0, 1, 4, 8, 1, 1, 1, 9])
    graph = {"kernel": "bc", "graph": "kron", "scale": 10, "degree": 4, "seed": 1, "sources": 1}
    _, of_graph = engine.record({**graph, "llc_bytes": 4096})
    _, of_store = engine.record(
        {"kernel": "seq_chase", "buffer_bytes": 65536, "hops": 1000, "llc_bytes": 4096}
    )
    texts = [metadata, told, of_graph, of_store]
    return [text.encode() + b"\0" + rows for text in texts]
