"""Where the checkout and its Python modules are, for tests that read sources instead of running them."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "engine" / "python" / "tiertune"
LINKED_FOLDERS = (
    "adapters",
    "campaigns",
    "claims",
    "gallery",
    "machines",
    "playbooks",
    "spaces",
    "suites",
    "sweeps",
    "tuner",
    "workloads",
)
"""What engine/python/tiertune links to, so that it is installed."""
ANSIBLE = "playbooks"
"""The one of them whose Python files are Ansible's modules and no modules of ours."""


@cache
def modules() -> dict[str, Path]:
    """Every Python module of the product by its full name (`tiertune.tuner.trial`), in sorted order."""
    found: dict[str, Path] = {}
    for folder, prefix in [
        (PACKAGE, "tiertune"),
        *((ROOT / n, f"tiertune.{n}") for n in LINKED_FOLDERS if n != ANSIBLE),
    ]:
        pattern = "*.py" if folder == PACKAGE else "**/*.py"
        for path in sorted(folder.glob(pattern)):
            parts = path.relative_to(folder).with_suffix("").parts
            name = ".".join((prefix, *(part for part in parts if part != "__init__")))
            found[name] = path
    return dict(sorted(found.items()))


@cache
def imports(module: str, *, for_types: bool = True) -> frozenset[str]:
    """Every module that `module` imports, anywhere in its file (also inside functions).

    Without `for_types`, leaves out what stands under `if TYPE_CHECKING` and so is never loaded.

    `from a import b` counts as `a.b` where that is a module of ours, otherwise as `a`.
    Raises ValueError for a relative import, which would hide its target from the rules.
    """
    tree = ast.parse(modules()[module].read_text(encoding="utf-8"))
    targets: set[str] = set()
    unloaded = (
        set() if for_types else {id(child) for block in _type_blocks(tree) for child in ast.walk(block)}
    )
    for node in ast.walk(tree):
        if id(node) in unloaded:
            continue
        if isinstance(node, ast.Import):
            targets.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level or node.module is None:
                raise ValueError(f"{module} line {node.lineno}: relative import")
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                targets.add(full if full in modules() else node.module)
    return frozenset(targets)


def own_imports(module: str, *, for_types: bool = True) -> frozenset[str]:
    """The part of `imports` that is ours, by full module name."""
    found = imports(module, for_types=for_types)
    return frozenset(target for target in found if target == "tiertune" or target.startswith("tiertune."))


def _type_blocks(tree: ast.AST) -> list[ast.If]:
    blocks = [node for node in ast.walk(tree) if isinstance(node, ast.If)]
    return [block for block in blocks if ast.unparse(block.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")]
