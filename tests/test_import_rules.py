"""The layers of architecture.md section 3: who may import whom, in Python and in Rust."""

from __future__ import annotations

import re
import tomllib
from graphlib import CycleError, TopologicalSorter

import pytest

from tests.source_tree import LINKED_FOLDERS, PACKAGE, ROOT, imports, modules, own_imports

# Lowest first: a module may import its own layer and those before it. A name covers what lies below it.
GROUND = tuple(f"tiertune.{path.stem}" for path in sorted(PACKAGE.glob("*.py")) if path.stem != "__init__")
LAYERS: tuple[tuple[str, ...], ...] = (
    GROUND,
    ("tiertune.machines", "tiertune.spaces", "tiertune.tuner.trial"),
    ("tiertune.workloads",),
    ("tiertune.adapters",),
    ("tiertune.tuner",),
    ("tiertune.tuner.api",),
    ("tiertune.tuner.cli",),
)
LOOP = "tiertune.tuner.loop"
CRATES = ROOT / "engine" / "crates"
MAY_DEPEND_ON = {
    "tiertune-prefetch": set[str](),
    "tiertune-policy": {"tiertune-prefetch"},
    "tiertune-contract": {"tiertune-policy"},
    "tiertune-workload": {"tiertune-policy"},
    "tiertune-host": set[str](),
    "tiertune-sim": {"tiertune-policy", "tiertune-workload"},
    "tiertune-python": {
        *("tiertune-policy", "tiertune-contract", "tiertune-workload", "tiertune-sim", "tiertune-host")
    },
    "tierload": {"tiertune-workload"},
    "tierd": {"tiertune-policy", "tiertune-host"},
}


def layer(module: str) -> int:
    """The layer whose name is the longest that covers `module`; the bare package is below all."""
    if module == "tiertune":
        return -1
    fits = [
        (len(name), level)
        for level, names in enumerate(LAYERS)
        for name in names
        if module == name or module.startswith(f"{name}.")
    ]
    assert fits, f"{module} belongs to no layer"
    return max(fits)[1]


@pytest.mark.parametrize("module", modules())
def test_a_module_imports_only_its_own_layer_and_lower_ones(module: str) -> None:
    if module == "tiertune":
        # The face of all layers: it names what they offer, and loads none of it.
        assert not own_imports(module, for_types=False)
        return
    above = {target for target in own_imports(module) if layer(target) > layer(module)}
    assert not above, f"{module} imports from above: {sorted(above)}"


def test_only_commands_and_the_python_interface_import_the_loop() -> None:
    importers = {module for module in modules() if LOOP in own_imports(module)}
    assert LOOP in modules()
    assert importers, "nobody imports the loop"
    callers = ("tiertune.tuner.api", "tiertune.tuner.cli")
    assert all(name.startswith(callers) for name in importers), sorted(importers)


def test_modules_load_one_another_without_a_circle() -> None:
    graph = {module: own_imports(module, for_types=False) - {module} for module in modules()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"imports in a circle: {' -> '.join(error.args[1])}")


def test_no_module_is_imported_under_its_bare_name() -> None:
    # `adapters` and `spaces` are other people's packages, and a module with two names exists twice.
    bare = {
        (module, target)
        for module in modules()
        for target in imports(module)
        if target.split(".")[0] in LINKED_FOLDERS
    }
    assert not bare


def manifests() -> dict[str, dict[str, dict[str, object]]]:
    """Each crate's Cargo.toml by crate name."""
    read = [tomllib.loads(path.read_text(encoding="utf-8")) for path in sorted(CRATES.glob("*/Cargo.toml"))]
    return {str(manifest["package"]["name"]): manifest for manifest in read}


def test_crates_depend_only_downwards() -> None:
    assert set(manifests()) == set(MAY_DEPEND_ON)
    for name, manifest in manifests().items():
        ours = {dependency for dependency in manifest["dependencies"] if dependency.startswith("tiertune-")}
        assert ours <= MAY_DEPEND_ON[name], name


def test_only_the_binding_knows_python() -> None:
    for name, manifest in manifests().items():
        tables = [
            manifest.get(table, {}) for table in ("dependencies", "dev-dependencies", "build-dependencies")
        ]
        python = {"pyo3", "numpy"} & {dependency for table in tables for dependency in table}
        assert bool(python) == (name == "tiertune-python"), name


IMPURE = re.compile(
    r"\bstd::(?:fs|io|net|env|process|thread|time|os)\b|\b(?:Instant|SystemTime|HashMap|HashSet|RandomState)\b"
    r"|\be?print(?:ln)?!|\bdbg!|\bunsafe\b|\bstatic\s+mut\b|\bthread_local!"
)


def test_policies_are_pure() -> None:
    """No input or output, no clock, no thread, no global state, and no container with a random order."""
    sources = sorted((CRATES / "policy" / "src").rglob("*.rs"))
    assert sources
    for path in sources:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            code = line.split("//")[0]
            assert not IMPURE.search(code), f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
