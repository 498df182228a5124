"""Files of profiles: ordinary Parquet, one row per slice, object, access class and 4 KiB page.

What the numbers stand for is JSON in the schema metadata under `tiertune.metadata`, beside a digest of all.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tiertune.files import InputError
from tiertune.nearest import nearest

if TYPE_CHECKING:
    import numpy as np

Columns = Mapping[str, "np.ndarray[Any, Any]"]

METADATA_KEY = b"tiertune.metadata"
DIGEST_KEY = b"tiertune.sha256"


class UnreadableProfile(Exception):
    """A stored profile that is not what was written; the sentence says why."""


def write_profile(path: Path, columns: Columns, metadata: str) -> None:
    """Writes a profile as Parquet; the file appears whole or not at all. Raises `OSError`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({name: pa.array(values) for name, values in columns.items()})
    table = table.replace_schema_metadata(
        {METADATA_KEY: metadata.encode(), DIGEST_KEY: _digest(columns, metadata).encode()}
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.stem}-", suffix=".part", dir=path.parent)
    os.close(handle)
    try:
        pq.write_table(table, temporary, compression="zstd")
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read_profile(path: Path) -> tuple[dict[str, np.ndarray[Any, Any]], str]:
    """Columns and metadata as they were written; raises `UnreadableProfile`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
        stored = table.schema.metadata or {}
        metadata = stored[METADATA_KEY].decode()
        columns = {name: table.column(name).to_numpy() for name in table.column_names}
    except MemoryError:  # Arrow's kind of it is one of its exceptions; nothing is wrong with the file
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise UnreadableProfile(str(error).splitlines()[0].rstrip(".")) from error
    except KeyError as error:
        raise UnreadableProfile("it holds no tiertune.metadata") from error
    if stored.get(DIGEST_KEY, b"").decode(errors="replace") != _digest(columns, metadata):
        raise UnreadableProfile("its content does not match its checksum")
    return columns, metadata


def check_file(path: Path) -> None:
    """Raises `InputError` where there is no file to read; Arrow would search a folder, however large."""
    if path.is_file():
        return
    folder = path if path.is_dir() else path.parent
    near = nearest(path.name, (one.name for one in folder.glob("*.parquet")))
    hint = f"did you mean '{folder / near}'?" if near else "`tiertune record` makes profiles"
    what = "is a folder, not a profile" if path.is_dir() else "there is no such file"
    raise InputError(f"{path}: {what}; {hint}")


def opened(path: Path, digest: str | None = None) -> tuple[dict[str, np.ndarray[Any, Any]], str]:
    """`read_profile` for a file of a user; raises `InputError`, also where its content is not `digest`."""
    check_file(path)
    try:
        columns, metadata = read_profile(path)
    except UnreadableProfile as error:
        raise InputError(f"{path}: this is not a profile ({error})") from error
    found = _digest(columns, metadata)
    if digest is not None and digest != found:
        raise InputError(
            f"{path}: the profile is another one than the workload names (its digest is {found})"
        )
    return columns, metadata


def read_head(path: Path) -> tuple[dict[str, Any], str]:
    """Metadata of a profile and the digest of its content, without its rows; raises `UnreadableProfile`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        stored = pq.read_schema(path).metadata or {}
        metadata = json.loads(stored[METADATA_KEY].decode())
    except MemoryError:  # Arrow's kind of it is one of its exceptions; nothing is wrong with the file
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UnreadableProfile(str(error).splitlines()[0].rstrip(".")) from error
    except KeyError as error:
        raise UnreadableProfile("it holds no tiertune.metadata") from error
    if not isinstance(metadata, dict):
        raise UnreadableProfile("its metadata is no mapping")
    return metadata, stored.get(DIGEST_KEY, b"").decode(errors="replace")


def _digest(columns: Columns, metadata: str) -> str:
    digest = hashlib.sha256(metadata.encode())
    for name in sorted(columns):
        values = columns[name]
        digest.update(f"\n{name} {values.dtype.str} {len(values)}\n".encode())
        digest.update(values.tobytes())
    return digest.hexdigest()
