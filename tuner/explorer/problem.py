"""What may be wrong with files that other commands wrote, and how it is said."""

from __future__ import annotations

import sqlite3

from tiertune.files import InputError

OTHER_FORM = (ArithmeticError, LookupError, TypeError, ValueError)
"""What reading a file of another version of tiertune, or one that was edited, comes to."""
UNREADABLE = (InputError, OSError, sqlite3.Error, *OTHER_FORM)


def sentence_of(error: Exception, path: str) -> str:
    """Why the page at `path` cannot be shown."""
    if isinstance(error, OTHER_FORM) and not isinstance(error, InputError):
        return f"{path}: what is stored there has another form ({type(error).__name__}: {error})"
    return str(error).strip() or type(error).__name__
