"""A new policy: files that pass their tests at once, to be changed into what is wanted."""

from __future__ import annotations

import keyword
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from tiertune.files import InputError

TEMPLATES = Path(__file__).with_name("templates")
CRATE = Path("engine", "crates", "policy", "src")
FIRST_LINES = {
    CRATE / "lib.rs": "pub mod notier;",
    CRATE / "registry.rs": "    crate::notier::SYSTEM,",
    Path("adapters", "registry.py"): '    "notier": BaselineAdapter,',
}
"""Files of a checkout that name systems, and the line before which a new one goes."""
RUST_WORDS = re.compile(
    "abstract|as|async|await|become|box|break|const|continue|crate|do|dyn|else|enum|extern|false|final|fn|for"
    "|gen|if|impl|in|let|loop|macro|match|mod|move|mut|override|priv|pub|ref|return|self|static|struct|super"
    "|trait|true|try|type|typeof|unsafe|unsized|use|virtual|where|while|yield"
)


@dataclass(frozen=True)
class Names:
    """How a policy is called where."""

    name: str
    module: str
    type: str


def names_of(name: str) -> Names:
    """Raises `InputError` where `name` is none for a policy in any language, or one that there is."""
    from tiertune import engine

    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name) or len(name) > 40:
        raise InputError(f"{name}: a policy's name is small letters, digits and dashes, 40 at most")
    if any(system.name == name for system in engine.systems()):
        raise InputError(f"{name}: there is a system of that name; try my-{name}")
    return Names(name, name.replace("-", "_"), "".join(part.capitalize() for part in name.split("-")))


def python_policy(name: str, folder: Path) -> list[Path]:
    """Lays out `folder/NAME`: policy, test, golden script and space; returns the paths.

    Raises `InputError` where the folder is there already, or the name is none.
    """
    names, place = names_of(name), folder / name
    if keyword.iskeyword(name) or keyword.iskeyword(names.type):
        raise InputError(f"{name}: Python has a use for that word; try my-{name}")
    if names.module in _modules():
        raise InputError(f"{name}: Python has a module of that name, which it would hide; try my-{name}")
    _check_type(names, "policy.py", "test_policy.py")
    if place.exists():
        raise InputError(f"{place}: it is there already; nothing was written")
    golden = _golden(names)
    place.mkdir(parents=True)
    made = {
        f"{names.module}.py": _filled("policy.py", names),
        f"test_{names.module}.py": _filled("test_policy.py", names),
        f"{names.name}.golden": golden,
        f"{names.name}.yaml": _filled("space.yaml", names),
    }
    for file, text in made.items():
        (place / file).write_text(text, encoding="utf-8")
    return [place / file for file in made]


def rust_policy(name: str, checkout: Path) -> list[Path]:
    """Adds a policy to a checkout: its file, its line in `lib.rs`, `registry.rs` and the adapters, a golden
    script and a space; returns the paths, new ones first. Nothing is written where anything is wrong.

    Raises `InputError` where `checkout` is none, or has something of that name.
    """
    names = names_of(name)
    if RUST_WORDS.fullmatch(name):
        raise InputError(f"{name}: Rust has a use for that word; try my-{name}")
    _check_type(names, "policy.rs")
    added = {path: _with_line(checkout / path, before, names) for path, before in FIRST_LINES.items()}
    made = {
        CRATE / f"{names.module}.rs": _filled("policy.rs", names),
        Path("engine", "testdata", names.name, "first.txt"): _golden(names),
        Path("spaces", f"{names.name}.yaml"): _filled("space.yaml", names),
    }
    for path in made:
        if (checkout / path).exists():
            raise InputError(f"{checkout / path}: it is there already; nothing was written")
    for path, text in [*made.items(), *added.items()]:
        (checkout / path).parent.mkdir(parents=True, exist_ok=True)
        (checkout / path).write_text(text, encoding="utf-8")
    return [checkout / path for path in [*made, *added]]


def _modules() -> set[str]:
    """What can be imported: tests have the policy's folder before all others."""
    from importlib.metadata import packages_distributions

    return {*sys.stdlib_module_names, *packages_distributions(), "tiertune"}


def _check_type(names: Names, *templates: str) -> None:
    """Raises `InputError` where the policy's type would be called as one that its files use."""
    other = Names("a-name", "a_name", "AName")
    for template in templates:
        if names.type in re.findall(r"(?<![.\w])[A-Z]\w*", _filled(template, other)):
            raise InputError(f"{names.name}: its file uses another {names.type} already; try my-{names.name}")


def _with_line(path: Path, before: str, names: Names) -> str:
    """The text of a file with the new system's line in it."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:
        raise InputError(
            f"{path}: not found; run this in a checkout of tiertune, or without --rust for a policy in Python"
        ) from None
    if text.count(f"{before}\n") != 1:
        raise InputError(f"{path}: '{before.strip()}' is not there once; add the new system by hand")
    line = before.replace("notier", names.name if path.suffix == ".py" else names.module)
    if f"{line}\n" in text:
        raise InputError(f"{path}: '{line.strip()}' is there already; nothing was written")
    if path.name == "lib.rs":
        # rustfmt wants modules in order.
        modules = [other for other in text.splitlines() if other.startswith("pub mod ")]
        if line > modules[-1]:
            return text.replace(f"{modules[-1]}\n", f"{modules[-1]}\n{line}\n", 1)
        before = next(other for other in modules if other > line)
    return text.replace(f"{before}\n", f"{line}\n{before}\n", 1)


def _filled(template: str, names: Names) -> str:
    import jinja2

    text = (TEMPLATES / f"{template}.j2").read_text(encoding="utf-8")
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    return environment.from_string(text).render(**vars(names))


def _golden(names: Names) -> str:
    """The golden script with what comes out: both templates decide alike, so the one in Python says it."""
    from tiertune import engine, policy

    space: dict[str, object] = {"__name__": f"tiertune_new_policy_{names.module}"}
    exec(compile(_filled("policy.py", names), f"{names.module}.py", "exec"), space)
    made = space[names.type]
    assert isinstance(made, type)
    policy.register(made)
    try:
        return engine.replay_script(names.name, _filled("golden.txt", names))
    finally:
        policy.unregister(names.name)
