"""The page of the Python API: everything that `import tiertune` offers, from its docstrings."""

from __future__ import annotations

import inspect

import tiertune


def pages() -> dict[str, str]:
    """Page by place on the site."""
    offered = {name: getattr(tiertune, name) for name in tiertune.__all__}
    errors = [name for name, found in offered.items() if _is_error(found)]
    classes = [name for name, found in offered.items() if inspect.isclass(found) and name not in errors]
    functions = [name for name in offered if name not in errors and name not in classes]
    parts = [
        "# Python API\n\nWhat commands do, as functions that return frames; `import tiertune` and go.\n",
        _part("Functions", functions, "autofunction"),
        _part("Classes", classes, "autoclass", "   :members:\n"),
        _part("Errors", errors, "autoexception"),
    ]
    return {"reference/api.md": "\n".join(parts)}


def _is_error(found: object) -> bool:
    return inspect.isclass(found) and issubclass(found, BaseException)


def _part(heading: str, names: list[str], directive: str, option: str = "") -> str:
    blocks = "\n".join(f".. {directive}:: tiertune.{name}\n{option}" for name in names)
    return f"## {heading}\n\n```{{eval-rst}}\n{blocks}```\n"
