"""Variables of a live program whose values are secret: which are by their looks, and what stands for them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tiertune.document import Path as Place

VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
"""Capitals only: a secret that is pasted where its name belongs is seldom taken for one, and not repeated."""

# At the end, since what comes before is of what: KEY_SIZE and MAX_TOKENS are numbers of a workload.
_BY_NAME = re.compile(
    r"(.*(TOKEN|PASSWORD|PASSWD|PASSPHRASE|SSHPASS|SECRETS?|CREDENTIALS?)|(.*_)?(PASS|PWD|AUTH|KEY|APIKEY))",
    re.IGNORECASE,
)
_PLAIN = re.compile(r"\d{1,4}|yes|no|true|false|on|off|\{\w+\}", re.IGNORECASE)
"""What is no secret whatever it is called: ALLOW_EMPTY_PASSWORD=yes, SORT_KEY=3."""
_IN_ADDRESS = re.compile(r"\w://[^/\s:@]*:[^/\s@]+@")


def clear_secrets(environment: Mapping[str, str], where: str = "beside it") -> Iterator[tuple[Place, str]]:
    """Where a value is a secret in the clear, and what to do, without the value."""
    for name, value in environment.items():
        if _BY_NAME.fullmatch(name) and not _PLAIN.fullmatch(value):
            yield ("environment", name), f"is a secret by its name{_stored(name, where)}"
        elif _IN_ADDRESS.search(value):
            yield ("environment", name), f"holds an address with a password{_stored(name, where)}"


def _stored(name: str, where: str) -> str:
    return (
        f", which would be stored with the results; leave it out here, and write secret_environment:"
        f" {{{name}: BENCH_{name.upper()}}} {where}, so that it is taken from that variable of tiertune's own"
        " environment"
    )


def secret_mistakes(secret: Mapping[str, str], clear: Mapping[str, str]) -> Iterator[tuple[Place, str]]:
    """What is wrong with names that stand for secrets, beside variables in the clear."""
    for name, source in secret.items():
        place = ("secret_environment", name)
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            yield ("secret_environment",), f"'{name}' is no name of a variable"
        if not VARIABLE.fullmatch(source):
            yield place, "takes the name of a variable of tiertune's own, in capitals, such as BENCH_PASSWORD"
        if name in clear:
            yield place, "is among the environment, too; keep one of the two"
