"""Values that a program of a live trial is given in secret: taken when it begins, and stored nowhere."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from tiertune.files import InputError
from tiertune.tuner.live.scope import Ended
from tiertune.workloads.definition import Workload

LEAST_CHARACTERS = 8
"""A shorter value would be found in what programs print anyway, and figures with it be taken away."""
IN_PLACE = "********"


@dataclass(frozen=True)
class Secrets:
    """Variables with their values, which no text of it shows."""

    variables: Mapping[str, str] = field(default_factory=dict, repr=False)

    def hidden(self, text: str) -> str:
        """`text` without the values, as they are and as JSON spells them. Of several lines each counts."""
        for value in sorted(set(self._spelled()), key=len, reverse=True):
            text = text.replace(value, IN_PLACE)
        return text

    def without(self, ended: Ended) -> Ended:
        """How a command ended, its output without the values."""
        return replace(ended, output=self.hidden(ended.output), errors=self.hidden(ended.errors))

    def _spelled(self) -> Iterator[str]:
        for value in self.variables.values():
            for part in (value, *value.splitlines()):
                if len(part) >= LEAST_CHARACTERS:
                    yield part
                    yield json.dumps(part)[1:-1]
                    yield json.dumps(part, ensure_ascii=False)[1:-1]


def secrets_of(workload: Workload, given: Mapping[str, str] | None = None) -> Secrets:
    """Those of a workload from the variables that tiertune was started with.

    Raises InputError where one is not there, or too short to be kept out of what is stored.
    """
    part, given = workload.on_host, os.environ if given is None else given
    wrong, found = [], {}
    for name, source in ((part.secret_environment if part else None) or {}).items():
        value = given.get(source, "")
        if len(value) >= LEAST_CHARACTERS:
            found[name] = value
            continue
        why = (
            f"has less than {LEAST_CHARACTERS} characters, which cannot be told from what programs print;"
            " take a longer one"
            if value
            else "is not set where tiertune runs; export it there before"
        )
        wrong.append(f"workload {workload.name}: secret_environment.{name}: the variable {source} {why}")
    if wrong:
        raise InputError(*wrong)
    return Secrets(found)
