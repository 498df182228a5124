"""Tiering policies written in Python: slow, but tried at once; what `engine/crates/policy` has in Rust.

A policy is a class with knobs and the methods of the Rust trait `Policy`. `register` makes it a system of
this process, which then runs, sweeps and tunes like any other:

    class Greedy(tiertune.Policy):
        name = "greedy"
        ...

    tiertune.register(Greedy)
    tiertune.run("greedy", "gups", "skx-numa")
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Generic, Literal, Protocol, Self, TypeAlias, TypeVar, overload

from tiertune import engine
from tiertune.condition import Condition, Value

T = TypeVar("T", bool, int, float, str)
EventName: TypeAlias = Literal["load-miss", "store", "slow-load-miss"]
ChangeCost: TypeAlias = Literal["live", "restart-system", "rebuild"]
Placement: TypeAlias = (
    Literal["fastest-free", "slowest-free"] | tuple[Literal["fastest-above"], int] | Sequence[int] | None
)

PAGE_4K, PAGE_2M = 4 << 10, 2 << 20


class PolicyMistake(engine.EngineError):
    """A policy class that cannot be registered; the message is one sentence."""


@dataclass(frozen=True)
class Sampler:
    """A hardware sampler: one record every `period` events of a kind and thread."""

    event: EventName
    period: int


@dataclass(frozen=True)
class Needs:
    """Signals beside hardware samples. The hidden truth of offline oracles is for policies in Rust."""

    hint_faults: bool = False
    accessed_bits: bool = False
    counters: bool = False


@dataclass(frozen=True)
class Mechanics:
    """How the system copies pages; times in ns for one move beside its copy, `copy_gbps` in 1e9 bytes/s a
    lane.

    `mode` is who waits meanwhile: ``write-protected`` (writers), ``unmapped`` (all) or ``transactional``
    (nobody; at most `passes` copies). `shootdowns` is how often each core that runs the program is
    interrupted for a page that is moved in the background: 1 where a kernel unmaps pages one by one.
    """

    lanes: int = 1
    fixed_ns: int = 0
    alone_fixed_ns: int = 0
    run_fixed_ns: int = 0
    remap_ns: int = 0
    copy_gbps: float = 10.0
    mode: Literal["write-protected", "unmapped", "transactional"] = "unmapped"
    passes: int = 1
    shootdowns: float = 0.0

    @classmethod
    def as_hemem(cls, page_bytes: int) -> Mechanics:
        """The copies of `hemem` by default, for policies that are to differ from it in what they decide only.

        The figures are those of the simple systems of the engine (`mover.rs`, with their sources).
        """
        at_4k_ns, at_2m_ns = 11_500.0, 500_000.0
        share = (page_bytes - PAGE_4K) / (PAGE_2M - PAGE_4K)
        fixed_ns = round(max(at_4k_ns + share * (at_2m_ns - at_4k_ns), 0.0))
        shootdowns = 2.0 if page_bytes < PAGE_2M else 0.0
        return cls(
            1, fixed_ns, fixed_ns, round(at_2m_ns), 4_000, 9.0, "write-protected", shootdowns=shootdowns
        )


@dataclass(frozen=True)
class Overheads:
    """What running the system costs: cores kept busy by polling, and CPU ns for each record of a sampler."""

    busy_cores: float = 0.0
    record_ns: float = 0.0


@dataclass(frozen=True)
class Gauge:
    """A number that a policy reports about itself; the name has its unit."""

    name: str
    meaning: str
    value: float


@dataclass(frozen=True)
class Topology:
    """The sizes that a policy is built for; `capacity_pages` by tier, the fastest first."""

    page_bytes: int
    pages: int
    capacity_pages: tuple[int, ...]


class Sample(Protocol):
    """A hardware sample: the page accessed, the tier that served it, the event that overflowed."""

    @property
    def page(self) -> int: ...
    @property
    def tier(self) -> int: ...
    @property
    def event(self) -> EventName: ...


class Fault(Protocol):
    """A fault that an application thread took; the guard on the page is gone."""

    @property
    def page(self) -> int: ...
    @property
    def tier(self) -> int: ...
    @property
    def kind(self) -> Literal["hint", "write"]: ...
    @property
    def armed_at_ns(self) -> int: ...
    @property
    def at_ns(self) -> int: ...
    @property
    def thread(self) -> int: ...


class Migrated(Protocol):
    """A move that ended; `at_once` where it was over before the call that asked for it (a reclaim)."""

    @property
    def page(self) -> int: ...
    @property
    def pages(self) -> int: ...
    @property
    def to(self) -> int: ...
    @property
    def outcome(self) -> Literal["done", "no-space", "already-there", "aborted", "gone", "refused"]: ...
    @property
    def at_once(self) -> bool: ...
    @property
    def at_ns(self) -> int: ...


class Extent(Protocol):
    """Pages that came into being together: `start` to `start + pages`, of place `site` in the program."""

    @property
    def object(self) -> int: ...
    @property
    def site(self) -> int: ...
    @property
    def start(self) -> int: ...
    @property
    def pages(self) -> int: ...
    @property
    def whole_pages(self) -> int: ...


class TierCounters(Protocol):
    """Counters of a tier since the start, for demand reads that miss the last-level cache."""

    @property
    def inserts(self) -> float: ...
    @property
    def occupancy_ns(self) -> float: ...
    @property
    def busy_ns(self) -> float: ...
    @property
    def read_bytes(self) -> float: ...
    @property
    def written_bytes(self) -> float: ...


class CoreCounters(Protocol):
    """Counters of the application's cores since the start."""

    @property
    def cycles(self) -> float: ...
    @property
    def stall_cycles(self) -> float: ...
    @property
    def outstanding_cycles(self) -> float: ...
    @property
    def occupancy_cycles(self) -> float: ...
    @property
    def reads(self) -> float: ...


class Context(Protocol):
    """What a policy works with during a call, and only then: the time, where pages are, and its requests.

    Tiers are numbers, 0 the fastest; pages are numbers of the managed size. A page or tier that does not
    exist raises `IndexError`.
    """

    @property
    def now_ns(self) -> int: ...
    def tier_of(self, page: int) -> int: ...
    def free_pages(self, tier: int) -> int: ...
    def migrate(self, page: int, to: int) -> None: ...
    def migrate_run(self, page: int, pages: int, to: int) -> None: ...
    def migrate_in_fault(self, fault: Fault, to: int) -> None: ...
    def migrate_keeping(self, page: int, to: int) -> None: ...
    def remap(self, page: int, to: int) -> None: ...
    def reclaim(self, page: int, to: int) -> None: ...
    def release(self, page: int) -> None: ...
    def arm(self, start: int, end: int) -> None: ...
    def set_sampling_period(self, name: EventName, period: int) -> None: ...
    def spend(self, cpu_ns: float) -> None: ...
    def spend_in_application(self, cpu_ns: float) -> None: ...
    def fault_again(self, fault: Fault, times: int) -> None: ...
    def wake_at(self, at_ns: int) -> None: ...
    def random(self) -> float: ...
    def below(self, n: int) -> int: ...
    def test_and_clear(self, page: int) -> bool: ...
    def test(self, page: int) -> bool: ...
    def tier_counters(self, tier: int) -> TierCounters: ...
    def core_counters(self) -> CoreCounters: ...


class Knob(Generic[T]):
    """A knob, declared as a class attribute; on an object it is the value. Use `Int`, `Float`, `Bool`,
    `Choice`.

    `meaning` is one line, `source` where default and range come from. `tuned` knobs are searched by
    campaigns. `when` is ``(other knob, value)``, or `is_not`,
    `is_one_of` or `is_over` of another knob: it acts only then. `special` are values outside the range
    and what they mean.
    """

    def __init__(
        self,
        default: T,
        kind: Mapping[str, Any],
        meaning: str,
        *,
        unit: str = "",
        source: str = "ours",
        tuned: bool = True,
        cost: ChangeCost = "live",
        when: tuple[str, Value] | Condition | None = None,
        special: Mapping[int, str] | None = None,
    ) -> None:
        condition = Condition(when[0], "is", (when[1],)) if isinstance(when, tuple) else when
        self.name = ""
        self.default: T = default
        self._rest: dict[str, Any] = {
            "meaning": meaning,
            "unit": unit,
            **kind,
            "special": list((special or {}).items()),
            "condition": asdict(condition) if condition else None,
            "tunable": tuned,
            "change_cost": cost,
            "source": source,
        }

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> Self | T:
        # An object has its values in its own attributes, which come before this.
        return self if instance is None else self.default

    def document(self) -> dict[str, Any]:
        """The declaration as the engine reads it."""
        return {"name": self.name, "default": self.default, **self._rest}


def Int(default: int, least: int, most: int, meaning: str, *, log: bool = False, **more: Any) -> Knob[int]:
    """A knob that is a whole number from `least` to `most`; the rest as for `Knob`."""
    return Knob(int(default), {"type": "int", "min": least, "max": most, "log": log}, meaning, **more)


def Float(
    default: float, least: float, most: float, meaning: str, *, log: bool = False, **more: Any
) -> Knob[float]:
    """A knob that is a number from `least` to `most`; the rest as for `Knob`."""
    kind = {"type": "float", "min": float(least), "max": float(most), "log": log}
    return Knob(float(default), kind, meaning, **more)


def Bool(default: bool, meaning: str, **more: Any) -> Knob[bool]:
    """A knob that is a switch; the rest as for `Knob`."""
    return Knob(bool(default), {"type": "bool"}, meaning, **more)


def Choice(default: str, choices: Sequence[str], meaning: str, **more: Any) -> Knob[str]:
    """A knob that is one of some words; the rest as for `Knob`."""
    return Knob(str(default), {"type": "choice", "choices": list(choices)}, meaning, **more)


class Policy:
    """A tiering system: a deterministic state machine, with the methods of the engine's trait `Policy`.

    Order: `on_alloc` for what exists at the start, one `on_wake` at time 0, then any method at times that
    never go back. Randomness comes from the context (`random`, `below`), so that equal runs decide alike; no
    clock, no file, no global state. Knobs are class attributes and, on the object, their values.
    """

    name: ClassVar[str]
    """Name in configs, commands and reports: small letters, digits and dashes."""
    summary: ClassVar[str]
    source: ClassVar[str] = "a prototype in Python"
    signal: ClassVar[str]
    """What it learns accesses from; begins with ``none`` where it learns nothing."""
    page_bytes: ClassVar[tuple[int, ...]] = (PAGE_2M, PAGE_4K)

    topology: Topology

    def __init__(self, config: Mapping[str, bool | int | float | str], topology: Topology) -> None:
        """Knobs become attributes. A subclass that has state of its own calls this first."""
        for knob, value in config.items():
            setattr(self, knob, value)
        self.topology = topology

    @classmethod
    def _built(
        cls, config: Mapping[str, Any], page_bytes: int, pages: int, capacity_pages: Sequence[int]
    ) -> Policy:
        return cls(config, Topology(page_bytes, pages, tuple(capacity_pages)))

    @classmethod
    def knobs(cls) -> tuple[Knob[Any], ...]:
        """The declared knobs, those of base classes first."""
        found: dict[str, Knob[Any]] = {}
        for base in reversed(cls.__mro__):
            found |= {name: value for name, value in vars(base).items() if isinstance(value, Knob)}
        return tuple(found.values())

    def samplers(self) -> Sequence[Sampler]:
        """The samplers it wants, asked once before the start."""
        return []

    def needs(self) -> Needs:
        """The other signals it wants, asked once before the start."""
        return Needs()

    def rehearsal(self) -> Policy | None:
        """A policy to run the whole workload with beforehand, for systems that profile offline."""
        return None

    def learn(self, notes: bytes) -> None:
        """What the rehearsal saved at its end."""

    def mechanics(self) -> Mechanics:
        """How it copies pages."""
        return Mechanics()

    def overheads(self) -> Overheads:
        """What it costs to run."""
        return Overheads()

    def on_alloc(self, extent: Extent, cx: Context) -> Placement:
        """Where the pages of a new extent go: None for the fastest tier with room, page by page; or
        ``slowest-free``, ``("fastest-above", pages that stay free)``, or the tier of each page."""
        return None

    def on_free(self, extent: Extent, cx: Context) -> None:
        """The pages of an extent are gone, and with them moves of them that were asked for."""

    def on_faults(self, faults: Sequence[Fault], cx: Context) -> None:
        """Faults since the last call, in order of time."""

    def on_samples(self, samples: Sequence[Sample], cx: Context) -> None:
        """Samples since the last call, in the order recorded."""

    def on_migrations(self, ended: Sequence[Migrated], idle: bool, cx: Context) -> None:
        """Moves that ended since the last call; `idle` when none is left under way."""

    def on_wake(self, cx: Context) -> None:
        """The time asked for with `Context.wake_at` has come; first at time 0."""

    def gauges(self) -> Sequence[Gauge]:
        """Numbers worth reporting."""
        return []

    def save(self) -> bytes:
        """Its whole state."""
        return pickle.dumps(vars(self))

    def restore(self, state: bytes) -> None:
        """Takes up a saved state of a policy with the same config and topology; raises where it is none."""
        taken = pickle.loads(state)
        if not isinstance(taken, dict):
            raise ValueError("this is no saved state of the policy")
        vars(self).update(taken)


def register(policy: type[Policy]) -> type[Policy]:
    """Makes `policy` a system of this process; usable as a decorator. Registered again, the new one takes
    over.

    Raises `PolicyMistake` with what is missing or wrong. Wrappers such as `colloid+` do not go around it.
    """
    if not (isinstance(policy, type) and issubclass(policy, Policy)):
        raise PolicyMistake(f"{policy!r} is no class derived from tiertune.Policy")
    for attribute in ("name", "summary", "signal"):
        if not isinstance(getattr(policy, attribute, None), str):
            raise PolicyMistake(f"class {policy.__name__} has no {attribute}; give it one line of text")
    if not re.fullmatch(r"[a-z][a-z0-9_-]{0,63}", policy.name):
        raise PolicyMistake(
            f"class {policy.__name__}: name '{policy.name}' is none; use small letters, digits and dashes"
        )
    if not policy.page_bytes or not set(policy.page_bytes) <= {PAGE_4K, PAGE_2M}:
        raise PolicyMistake(
            f"{policy.name}: page_bytes {policy.page_bytes} holds other sizes than {PAGE_4K} and {PAGE_2M}"
        )
    clash = next((knob.name for knob in policy.knobs() if hasattr(Policy, knob.name)), None)
    if clash is not None:
        raise PolicyMistake(f"{policy.name}: a knob cannot be called '{clash}': policies have that already")
    engine.register(
        {
            "name": policy.name,
            "summary": policy.summary,
            "source": policy.source,
            "signal": policy.signal,
            "page_bytes": list(policy.page_bytes),
            "knobs": [knob.document() for knob in policy.knobs()],
        },
        policy,
    )
    return policy


def unregister(name: str) -> bool:
    """Takes a registered policy away; whether there was one."""
    return engine.unregister(name)
