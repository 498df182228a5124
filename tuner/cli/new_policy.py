"""`new-policy` and `check-policy`: a policy's files laid out, and the contract that it has to keep."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from tiertune.tuner.cli.failures import BAD_INPUT, guarded, say
from tiertune.tuner.cli.options import Json


@guarded
def new_policy(
    name: Annotated[str, typer.Argument(help="Its name: small letters, digits and dashes.")],
    rust: Annotated[
        bool, typer.Option("--rust/--python", help="In Rust, into a checkout; or in Python, a folder.")
    ] = False,
    folder: Annotated[
        Path, typer.Option("--in", metavar="DIR", help="Where the folder goes, or the checkout.")
    ] = Path(),
    as_json: Json = False,
) -> None:
    """Lay out a new policy whose tests pass at once.

    A policy, its golden script, its search space and, in Python, its test.
    In Python it is tried at once; in Rust it is fast, and takes a build.

    \b
    Examples:
      tiertune new-policy greedy
      tiertune new-policy greedy --rust
    """
    from tiertune.tuner.api.new_policy import names_of, python_policy, rust_policy
    from tiertune.tuner.cli.output import print_json

    paths = rust_policy(name, folder) if rust else python_policy(name, folder)
    test = f"test_{names_of(name).module}.py"
    steps = (
        ["cargo test --manifest-path engine/Cargo.toml -p tiertune-policy --test suite", "make setup"]
        if rust
        else [f"tiertune check-policy {paths[0]}", f"python -m pytest {paths[0].with_name(test)}"]
    )
    if as_json:
        print_json({"files": [str(path) for path in paths], "next": steps})
        return
    for path in paths:
        print(path)
    print("next:")
    for step in steps:
        print(f"  {step}")


@guarded
def check_policy(
    file: Annotated[Path, typer.Argument(help="A Python file with policies; it is executed.")],
    as_json: Json = False,
) -> None:
    """Hold policies in Python to the contract of all policies.

    Golden scripts (*.golden) beside the file are replayed, too; of several
    policies each takes those that begin with its name. Takes from seconds
    to minutes. Exit code 2 where a promise is broken.

    \b
    Example:
      tiertune check-policy greedy/greedy.py
    """
    from tiertune.testing import check, difference, policies_of
    from tiertune.tuner.cli.output import print_json

    found: list[dict[str, str]] = []

    def tell(policy: str, promise: str, wrong: str) -> None:
        found.append({"policy": policy, "promise": promise, "wrong": wrong})
        if not as_json:
            print(f"{'broken' if wrong else 'kept'}  {policy}: {promise}", flush=True)
            if wrong:
                print(f"        {wrong}", flush=True)

    policies = policies_of(file)
    scripts = _scripts([policy.name for policy in policies], file.parent)
    for policy in policies:
        for kept in check(policy):
            tell(policy.name, kept.promise, kept.wrong)
        for script in scripts[policy.name]:
            tell(policy.name, f"{script.name} gives the recorded decisions", difference(policy, script))
    if as_json:
        print_json(found)
    if any(one["wrong"] for one in found):
        raise typer.Exit(BAD_INPUT)


def _scripts(policies: Sequence[str], folder: Path) -> dict[str, list[Path]]:
    """The golden scripts in `folder` by the policy that they are of; says of which it is not known."""
    found: dict[str, list[Path]] = {name: [] for name in policies}
    for script in sorted(folder.glob("*.golden")):
        named = [name for name in policies if f"{script.stem}-".startswith(f"{name}-")]
        if len(policies) == 1 or named:
            found[max(named or policies, key=len)].append(script)
        else:
            say(f"{script}: not replayed, as its name begins with that of none of {', '.join(policies)}")
    return found
