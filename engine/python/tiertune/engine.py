"""The native engine, typed: systems and their knobs, workloads, runs, recordings.

Everything here is a thin wrapper over the module ``tiertune_engine`` (Rust), which takes and
returns JSON. Nothing about a knob or metric is declared in Python.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from tiertune import condition
from tiertune.condition import Condition

if TYPE_CHECKING:
    import numpy as np

Value = condition.Value


class EngineError(Exception):
    """The engine refused what it was given; the message is one sentence for the user."""


class PolicyFailed(EngineError):
    """A policy written in Python raised; the sentence says where, the cause is what it raised."""


class SamplerUnfit(Exception):
    """This host, or the rights here, do not allow a process to be sampled; the sentence says what would."""


def _native() -> Any:
    try:
        import tiertune_engine
    except ImportError as error:
        raise EngineError(
            f"the native module tiertune_engine is not installed ({error}); run `make setup` in the checkout"
        ) from error
    return tiertune_engine


@dataclass(frozen=True)
class KnobInfo:
    """The declaration of a knob, as the policy's own file makes it."""

    name: str
    meaning: str
    unit: str
    type: str
    """``int``, ``float``, ``bool`` or ``choice``."""
    min: float | None
    max: float | None
    log: bool
    choices: tuple[str, ...]
    default: Value
    special: tuple[tuple[int, str], ...]
    """Values outside the range and what they mean."""
    condition: Condition | None
    """What another knob must be for this knob to act."""
    tunable: bool
    change_cost: str
    source: str

    def example(self, condition: Condition) -> Value:
        """A value of this knob for which `condition`, of another one, holds."""
        ends = [bound for bound in (self.min, self.max) if bound is not None]
        return condition.example(self.default, ends or (*self.choices, False, True))


@dataclass(frozen=True)
class SystemInfo:
    """A tiering system."""

    name: str
    summary: str
    source: str
    signal: str
    page_bytes: tuple[int, ...]
    """Managed page sizes, the usual one first."""
    knobs: tuple[KnobInfo, ...]
    live_obstacle: str | None = None
    """Why it runs on no host, if it does not."""

    def knob(self, name: str) -> KnobInfo:
        """The knob called ``name``; ``KeyError`` when there is none."""
        for knob in self.knobs:
            if knob.name == name:
                return knob
        raise KeyError(name)

    def acts(self, name: str, config: Mapping[str, Value]) -> bool:
        """Whether a knob has an effect beside a complete `config`; not while the one that it depends on has
        none either."""
        on = self.knob(name).condition
        return on is None or (on.takes(config[on.knob]) and self.acts(on.knob, config))


@dataclass(frozen=True)
class MetricInfo:
    """The declaration of a metric."""

    name: str
    unit: str
    direction: str
    """``minimize``, ``maximize`` or empty."""
    role: str
    """``objective``: workloads are measured by it; ``secondary``: a campaign may improve it, too;
    ``covariate``: told beside them; ``validity``: anything but 0 is no measurement."""
    meaning: str


@dataclass(frozen=True)
class ParameterInfo:
    """The declaration of a kernel's parameter, as the kernel's own file makes it."""

    name: str
    type: str
    """``int``, ``bytes``, ``real``, ``word``, ``flag``, ``text`` (of lines) or ``other`` (any JSON)."""
    unit: str
    least: float | None
    most: float | None
    words: tuple[str, ...]
    default: Any
    """None: it must be given."""
    carried: bool
    """Whether a recording can be carried to a larger value."""
    work: bool
    """Whether it counts the work of a run and nothing else: more of it is a longer run on the same memory."""
    meaning: str


@dataclass(frozen=True)
class KernelInfo:
    """A workload kernel that the engine executes and records."""

    name: str
    family: str
    summary: str
    source: str
    operation: str
    """What one operation is."""
    classes: tuple[str, ...]
    parameters: tuple[ParameterInfo, ...]
    metrics: tuple[MetricInfo, ...]
    """Figures of a native run beside run time and throughput."""
    loadings: dict[str, str]
    """What can stand under `sim.carry.loading`, with what it means; empty where nothing is loaded so."""


def version() -> str:
    """Version of the native engine."""
    return str(_native().version())


def sources() -> str:
    """Fingerprint of the sources that decide a simulated run, as 16 hexadecimal digits.

    Engines of one version may compute otherwise; those of the same sources do not, wherever they were built.
    """
    return str(_native().sources())


def _knob(document: dict[str, Any]) -> KnobInfo:
    condition = document["condition"]
    return KnobInfo(
        name=document["name"],
        meaning=document["meaning"],
        unit=document["unit"],
        type=document["type"],
        min=document.get("min"),
        max=document.get("max"),
        log=document.get("log", False),
        choices=tuple(document.get("choices", ())),
        default=document["default"],
        special=tuple((special["value"], special["meaning"]) for special in document["special"]),
        condition=Condition(condition["knob"], condition["test"], tuple(condition["values"]))
        if condition
        else None,
        tunable=document["tunable"],
        change_cost=document["change_cost"],
        source=document["source"],
    )


def _system(document: dict[str, Any]) -> SystemInfo:
    return SystemInfo(
        name=document["name"],
        summary=document["summary"],
        source=document["source"],
        signal=document["signal"],
        page_bytes=tuple(document["page_bytes"]),
        knobs=tuple(_knob(knob) for knob in document["knobs"]),
        live_obstacle=document.get("live_obstacle"),
    )


@cache
def systems() -> tuple[SystemInfo, ...]:
    """All listed systems, in the order of the registry: base systems, then the compositions of papers, then
    policies that this process has registered."""
    own = [] if not _registered else json.loads(_native().registered_json())
    return tuple(_system(document) for document in [*json.loads(_native().systems_json()), *own])


@cache
def system(name: str) -> SystemInfo:
    """The system called ``name``, a composition such as ``alto+tpp`` included.

    ``EngineError`` names the nearest system when there is none, or says why the parts do not go together.
    """
    try:
        return _system(json.loads(_native().system_json(name)))
    except ValueError as error:
        raise EngineError(str(error)) from error


@cache
def metrics() -> tuple[MetricInfo, ...]:
    """All metrics of a run, in the order of reports."""
    return tuple(MetricInfo(**document) for document in json.loads(_native().metrics_json()))


@cache
def observed() -> dict[str, tuple[MetricInfo, ...]]:
    """What a run can count beside its metrics, by the first word of names: ``counter`` and ``object``."""
    documents = json.loads(_native().observed_json())
    return {kind: tuple(MetricInfo(**document) for document in found) for kind, found in documents.items()}


@cache
def kernels() -> tuple[KernelInfo, ...]:
    """All workload kernels, in the order of the registry."""
    return tuple(
        KernelInfo(
            name=document["name"],
            family=document["family"],
            summary=document["summary"],
            source=document["source"],
            operation=document["operation"],
            classes=tuple(document["classes"]),
            parameters=tuple(
                ParameterInfo(**{**parameter, "words": tuple(parameter["words"])})
                for parameter in document["parameters"]
            ),
            metrics=tuple(MetricInfo(direction="", **metric) for metric in document["metrics"]),
            loadings={one["name"]: one["meaning"] for one in document["loadings"]},
        )
        for document in json.loads(_native().kernels_json())
    )


_registered: dict[str, str] = {}
"""Digest of the class behind each policy of this process, by its name."""


def register(document: Mapping[str, Any], policy: type) -> None:
    """Makes a class of `tiertune.policy` the system that `document` describes; `EngineError` says what is
    wrong."""
    try:
        _native().register_policy(json.dumps(dict(document)), policy)
    except ValueError as error:
        raise EngineError(str(error)) from error
    _registered[str(document["name"])] = class_digest(policy)
    system.cache_clear()
    systems.cache_clear()


def unregister(name: str) -> bool:
    """Takes a registered policy away; whether there was one."""
    if name not in _registered:
        return False
    del _registered[name]
    system.cache_clear()
    systems.cache_clear()
    return bool(_native().unregister_policy(name))


def registered() -> dict[str, str]:
    """Policies of this process by name, with a digest (hex) of the code that they are."""
    return dict(_registered)


def class_digest(policy: type) -> str:
    """SHA-256 (hex) of the file of a class or, where it was typed in, of its code."""
    import hashlib
    import inspect
    import marshal
    from pathlib import Path

    try:
        found = Path(inspect.getfile(policy)).read_bytes()
    except (TypeError, OSError):
        codes = [f.__code__ for _, f in sorted(vars(policy).items()) if hasattr(f, "__code__")]
        found = b"".join(marshal.dumps(code) for code in codes)
    return hashlib.sha256(found).hexdigest()


def promises() -> list[str]:
    """The names of what every policy promises, the quickest to check first."""
    return list(_native().promises())


def check_promise(system: str, promise: str) -> str | None:
    """Holds a system to a promise: what is wrong, or None. Takes from a moment to minutes for one in
    Python."""
    try:
        wrong = _said(_native().check_promise, system, promise)
    except ValueError as error:
        raise EngineError(str(error)) from error
    return None if wrong is None else str(wrong)


def replay_script(system: str, script: str) -> str:
    """A golden script with every output as it comes out now; `EngineError` where a command cannot be read."""
    try:
        return str(_said(_native().replay_script, system, script))
    except ValueError as error:
        raise EngineError(str(error)) from error


def _said(call: Any, *arguments: Any) -> Any:
    """What the engine says; what a policy in Python raised is an `EngineError` with it as the cause."""
    failed = getattr(_native(), "PolicyFailed", ())
    try:
        return call(*arguments)
    except failed as error:
        raise PolicyFailed(str(error)) from error.__cause__


def check_config(system: str, config: Mapping[str, object]) -> dict[str, Value]:
    """``config`` with defaults filled in; ``EngineError`` names key, value and nearest valid choice."""
    for name, value in config.items():
        if isinstance(value, float) and not math.isfinite(value):  # JSON has none
            raise EngineError(f"{system} knob '{name}': {value} is not a finite number")
    try:
        return dict(json.loads(_native().check_config(system, json.dumps(dict(config)))))
    except ValueError as error:
        raise EngineError(str(error)) from error


class EngineWorkload:
    """A workload inside the engine, shared by all runs of a scenario. Cannot be pickled."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    @staticmethod
    def from_streams(document: Mapping[str, Any]) -> EngineWorkload:
        """A workload of synthetic streams (the ``sim.streams`` part of a workload file)."""
        try:
            return EngineWorkload(_native().Workload.from_streams(json.dumps(document)))
        except ValueError as error:
            raise EngineError(str(error)) from error

    @staticmethod
    def from_profile(
        columns: Mapping[str, np.ndarray[Any, Any]], metadata: str, carry: Mapping[str, Any], threads: int
    ) -> EngineWorkload:
        """A recorded profile (see :func:`record`) carried to another input size, on ``threads`` threads.

        ``carry`` has ``page_bytes``, ``runs`` and larger values of the kernel's carried parameters.
        """
        try:
            native = _native()
            return EngineWorkload(
                native.Workload.from_profile(dict(columns), metadata, json.dumps(dict(carry)), threads)
            )
        except ValueError as error:
            raise EngineError(str(error)) from error

    def describe(self) -> dict[str, Any]:
        """Footprint in bytes, objects, phase names, and notes on what was scaled and how."""
        return dict(json.loads(self._handle.describe()))

    @property
    def footprint_bytes(self) -> int:
        """The most bytes of objects that are there at a time."""
        return int(self.describe()["footprint_bytes"])


def run(workload: EngineWorkload, request: Mapping[str, Any]) -> dict[str, Any]:
    """One run; returns ``metrics``, ``timeline`` (columns), ``gauges`` and the resolved ``config``.

    Releases the interpreter lock, so threads run side by side. Equal requests give equal results.
    """
    try:
        return dict(json.loads(_said(_native().run, workload._handle, json.dumps(request))))
    except ValueError as error:
        raise EngineError(str(error)) from error


def run_many(
    workload: EngineWorkload, requests: Sequence[Mapping[str, Any]], threads: int
) -> list[dict[str, Any]]:
    """Many runs on ``threads`` threads, results in order; the same results for any ``threads``."""
    try:
        texts = _said(_native().run_many, workload._handle, [json.dumps(r) for r in requests], threads)
    except ValueError as error:
        raise EngineError(str(error)) from error
    return [dict(json.loads(text)) for text in texts]


def record(request: Mapping[str, Any]) -> tuple[dict[str, np.ndarray[Any, Any]], str]:
    """Executes a kernel and records it: columns by name (equal lengths), metadata as JSON."""
    _load_arrays()
    try:
        columns, metadata = _native().record(json.dumps(request))
    except ValueError as error:
        raise EngineError(str(error)) from error
    return dict(columns), str(metadata)


@cache
def _load_arrays() -> None:
    """Has the native module look NumPy up. It does so for its first array, in part with Python's code, which
    Ctrl-C ends: after a recording that this met it would panic."""
    import numpy.lib  # noqa: F401  (most of it; Ctrl-C in here is one)

    with suppress(ValueError):
        _native().Workload.from_profile({"slice": None}, "", "", 1)  # refused, once NumPy was looked up


def profile_version() -> str:
    """Version of the recorder and of its columns; profiles of another version are recorded anew."""
    return str(_native().profile_version())


@dataclass(frozen=True)
class RecordPlan:
    """How large a recorded run and its carried version are."""

    recorded_bytes: int
    """All objects of the recorded run; for graphs the expected value."""
    carried_bytes: int
    """All objects of the replayed run."""
    footprint_bytes: int
    """The most of them that is there at a time."""
    llc_bytes: int
    """Last-level cache to record with: the machine's, scaled as the objects are."""


def plan(request: Mapping[str, Any], carry: Mapping[str, Any], machine_llc_bytes: int) -> RecordPlan:
    """What recording ``request`` for ``carry`` on a machine with this cache comes to, without doing it."""
    try:
        text = _native().plan(json.dumps(dict(request)), json.dumps(dict(carry)), machine_llc_bytes)
    except ValueError as error:
        raise EngineError(str(error)) from error
    return RecordPlan(**json.loads(text))


@cache
def _samplers() -> tuple[tuple[str, str], ...]:
    found = json.loads(_native().samplers_json())
    return tuple((entry["name"], entry["lacks"]) for entry in found)


def samplers() -> dict[str, str]:
    """Samplers of processes, the one that sees most first, and what each lacks here (empty: it works)."""
    return dict(_samplers())


def sample(
    pid: int, sampler: str, seconds: float | None, interval_s: float, windows: int
) -> tuple[dict[str, np.ndarray[Any, Any]], str]:
    """Samples process ``pid`` and its children for ``seconds``, until it ends, or until Ctrl-C.

    Columns (equal lengths, sorted by window): ``window``, ``process``, ``start`` and ``pages`` (4 KiB pages
    that are not told apart), ``hits`` (touched pages, summed over the looks). The rest as JSON: ``windows``,
    ``areas`` (process, first page, page after the last, label), ``resident`` (stretches of pages),
    ``threads``, ``looking_share``, ``notes``. Raises ``SamplerUnfit``, and ``EngineError`` for a process that
    is not there.
    """
    try:
        columns, told = _native().sample(pid, sampler, seconds, interval_s, windows)
    except ValueError as error:
        raise EngineError(str(error)) from error
    except RuntimeError as error:
        raise SamplerUnfit(str(error)) from error
    return dict(columns), str(told)
