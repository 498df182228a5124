"""Configs that one configuration for many contexts is chosen from: the default and finalists of searches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tiertune.tuner.transfer.context import Context, complete
from tiertune.tuner.trial import Config, canonical

DEFAULT = "default"


@dataclass(frozen=True)
class Candidate:
    """A complete config under a short name; `origins` are the contexts whose finalist it is."""

    name: str
    config: Config
    origins: frozenset[int]

    def known_from(self, contexts: Iterable[int]) -> bool:
        """Whether searches in these contexts alone had found it; the default is known anyway."""
        return self.name == DEFAULT or bool(self.origins & set(contexts))


def candidates_of(contexts: Sequence[Context], most_each: int) -> list[Candidate]:
    """The default first, then of each context its winner and next best, `most_each` in all; equal ones once.

    `3a` is the winner of context 3, `3b` its next best.
    """
    found: dict[str, Candidate] = {}
    default = complete(contexts[0].system, {})
    found[canonical(default)] = Candidate(DEFAULT, default, frozenset())
    for number, context in enumerate(contexts):
        for rank, config in enumerate(context.finalists[:most_each]):
            key = canonical(config)
            name = f"{number + 1}{chr(ord('a') + rank)}"
            known = found.setdefault(key, Candidate(name, config, frozenset()))
            found[key] = Candidate(known.name, known.config, known.origins | {number})
    return list(found.values())
