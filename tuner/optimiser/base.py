"""The one interface of everything that proposes configs: `ask`, a pure function of seed, number and history.

A new optimiser inherits `tests/contracts/optimiser.py` and gets a line in `registry.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tiertune.tuner.trial import Config, Origin, Status, plain_config

if TYPE_CHECKING:
    from ConfigSpace import Configuration, ConfigurationSpace

    Decode = Callable[[Configuration], Config]


@dataclass(frozen=True)
class Settings:
    """What shapes the sequence of proposals, beside the space. `initial` counts the default configuration."""

    seed: int
    initial: int = 20
    random_share: float = 0.2


@dataclass(frozen=True)
class Observation:
    """A trial as an optimiser may know it.

    `cost` is the natural log of the objective, lower is better, and None unless the status is ok. For a
    timeout, `bound` is the least the cost would have been. A status of running means in flight: proposed,
    nothing known yet. `repeat` is the number of the shared seed where the trial raced on one. A trial that
    worked but broke a constraint of its campaign is not `feasible`; a timeout that was `capped` was given up
    on purpose, because it was slower than the best. `second` is the metric of a second objective in its own
    unit, where the campaign has one.
    """

    number: int
    config: Config
    status: Status
    cost: float | None = None
    bound: float | None = None
    repeat: int | None = None
    feasible: bool = True
    capped: bool = False
    fidelity: float = 1.0
    second: float | None = None


@dataclass(frozen=True)
class Proposal:
    """A config to try, which rule chose it, and a sentence for the decision log.

    `repeat` asks for the shared seed of that number: the config races others that ran on it. `gain` is by how
    much the model expects the config to be better than the best one, in natural log of the objective, None
    where no model says it. `fidelity` is the share of the workload that is run.
    """

    config: Config
    origin: Origin
    reason: str
    repeat: int | None = None
    gain: float | None = None
    fidelity: float = 1.0


class Optimiser(ABC):
    """Proposes configs. Keeps nothing between calls that could change an answer: what it caches, it can
    rebuild.

    `decode` turns a configuration into the config of the system, which may hold fixed knobs outside the space
    as well.
    """

    name: ClassVar[str]
    expects: bool = False
    """Whether a model proposes that says what it expects, in `Proposal.gain`."""

    def __init__(self, space: ConfigurationSpace, settings: Settings, decode: Decode = plain_config) -> None:
        self.space = space
        self.settings = settings
        self.decode = decode

    def ask(self, number: int, history: Sequence[Observation]) -> Proposal:
        """The proposal for trial `number` after `history`; equal arguments give equal proposals, in any
        process.

        `history` holds earlier trials only, each once, in any order. Raises ValueError where it does not.
        """
        ordered = sorted(history, key=lambda observation: observation.number)
        numbers = [observation.number for observation in ordered]
        if len(set(numbers)) != len(numbers) or any(n >= number or n < 0 for n in numbers):
            raise ValueError(f"history of trial {number} must hold earlier trials once each, not {numbers}")
        if number == 0:
            default = self.decode(self.space.get_default_configuration())
            return Proposal(default, "default", "the default configuration goes first")
        return self._ask(number, ordered)

    @abstractmethod
    def _ask(self, number: int, history: Sequence[Observation]) -> Proposal:
        """`ask` for numbers above 0, with a checked and sorted history."""
