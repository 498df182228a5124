"""Places for what a command writes last: looked at first, before the work that is to go there."""

from __future__ import annotations

from pathlib import Path


def check_file(option: str, file: Path, *, makes_folders: bool = False) -> None:
    """Raises InputError where `file` cannot be written; its folder has to be there if none is made for it."""
    folder = _nearest(file.parent) if makes_folders else file.parent
    reason = "is a directory" if file.is_dir() else _obstacle(folder)
    if reason is not None:
        _refuse(option, file, reason)


def check_folder(option: str, folder: Path) -> None:
    """Raises InputError where nothing can be written into `folder`, or it cannot be made."""
    reason = _obstacle(_nearest(folder))
    if reason is not None:
        _refuse(option, folder, reason)


def _refuse(option: str, place: Path, reason: str) -> None:
    from tiertune.files import InputError

    raise InputError(f"{option}: {place} cannot be written ({reason})")


def _nearest(folder: Path) -> Path:
    """The folder itself, or the one that is there already of those that would be made with it."""
    from os.path import lexists  # a link that leads nowhere is in the way, too

    return next((one for one in (folder, *folder.parents) if lexists(one)), folder)


def _obstacle(folder: Path) -> str | None:
    """Why no file can be made in `folder`. The one that finds out is gone when this returns."""
    import tempfile

    try:
        # Kernels that can have it without a name anywhere: nobody ever sees it.
        with tempfile.TemporaryFile(dir=folder):
            return None
    except OSError as error:
        return (error.strerror or str(error)).lower()
