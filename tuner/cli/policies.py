"""Policies written in Python as systems of a command: `--policy-file`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path


def register_policies(files: Sequence[Path] | None) -> None:
    """Executes the files and makes their policies systems of this process.

    Raises `InputError` where a file defines none, and where a name is a system's or another file's.
    """
    from tiertune import engine
    from tiertune.files import InputError
    from tiertune.policy import register
    from tiertune.testing import policies_of

    taken: dict[str, Path] = {}
    for file in files or ():
        for policy in policies_of(file):
            name = getattr(policy, "name", None)
            if name in taken:
                raise InputError(
                    f"--policy-file {file}: {taken[name]} has a policy '{name}', too; rename one"
                )
            if any(system.name == name for system in engine.systems()) and name not in engine.registered():
                raise InputError(
                    f"--policy-file {file}: there is a system '{name}'; call the policy my-{name}"
                )
            register(policy)
            taken[policy.name] = file


def check_policies_of(folder: Path, command: str) -> None:
    """Raises `InputError` where the campaign in `folder` tunes a policy written in Python that no file was
    named for; `command` is what to give the file to."""
    from tiertune import engine
    from tiertune.files import InputError
    from tiertune.tuner.journal import Journal
    from tiertune.tuner.journal_claim import JournalError

    try:
        with Journal(folder / "journal.sqlite", writer=False) as journal:
            cells = journal.claimed().document["cells"].values()
    except JournalError:
        return  # whoever opens it to go on says what is wrong, and nothing if it was killed before it began
    for cell in cells:
        name = cell["space"]["system"] if "code" in cell else ""
        if name and name not in engine.registered():
            raise InputError(
                f"{name} is a policy written in Python, of a file whose SHA-256 is {cell['code']}; name that"
                f" file: {command} --policy-file FILE.py"
            )


def refuse_elsewhere(files: Sequence[Path] | None, options: Mapping[str, object]) -> None:
    """Raises `InputError` where such policies would run in another process than this one."""
    from tiertune.files import InputError

    given = [option for option, value in options.items() if value]
    if files and given:
        raise InputError(
            f"--policy-file goes with trials of this process only, not with {' and '.join(given)}: workers"
            " and daemons run policies written in Rust (`tiertune new-policy NAME --rust`)"
        )


def options(files: Sequence[Path] | None) -> list[str]:
    """The options again, as arguments."""
    return [word for file in files or () for word in ("--policy-file", str(file))]


def words(files: Sequence[Path] | None) -> str:
    """The options again, for a command that goes on where this one was stopped."""
    import shlex

    return f" {shlex.join(options(files))}" if files else ""
