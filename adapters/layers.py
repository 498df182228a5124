"""Wrappers as their authors configure them: names, units and places of the settings of each port."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import log2
from typing import Any

from tiertune.adapters.base import AdapterError, NativeKnob, Value


@dataclass(frozen=True)
class Setting:
    """A native setting: name, unit, and the way there and back."""

    name: str
    unit: str = ""
    there: Callable[[Any], Any] = lambda value: value
    back: Callable[[Any], Any] = lambda value: value


@dataclass(frozen=True)
class Layer:
    """One wrapper around one kind of host: where its settings live, and what it calls them by knob."""

    name: str
    place: str
    settings: Mapping[str, Setting] = field(default_factory=dict)
    mode_bits: int = 0
    """What the wrapper adds to the host's kernel.numa_balancing, which switches it on."""

    @property
    def prefix(self) -> str:
        """What the wrapper's knobs start with."""
        return f"{self.name}_"

    def native_knob(self, knob: str) -> NativeKnob | None:
        """Name and unit, None where the public code has no such setting."""
        setting = self.settings.get(knob)
        return NativeKnob(setting.name, setting.unit) if setting else None

    def to_native(self, knob: str, value: Value) -> tuple[str, Value]:
        """Native name and value; a knob without a setting keeps both."""
        setting = self.settings.get(knob)
        return (setting.name, setting.there(value)) if setting else (knob, value)

    def from_native(self, knob: str, value: Value) -> Value:
        """The knob's value behind a native one."""
        setting = self.settings.get(knob)
        try:
            return setting.back(value) if setting else value
        except (KeyError, TypeError, ValueError) as error:
            name = setting.name if setting else knob
            raise AdapterError(f"{name} cannot be {value!r}") from error

    def remark(self, knob: str) -> str:
        """What a line says behind the value."""
        setting = self.settings.get(knob)
        if setting is None:
            return "  # as tiertune ran it; the public code has no such setting"
        return f"  # {setting.unit}" if setting.unit else ""


def _words(to_native: dict[str, Value]) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    back = {value: word for word, value in to_native.items()}
    return (lambda word: to_native[word]), (lambda value: back[value])


def _scaled(factor: float) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    return (lambda value: value * factor), (lambda value: value / factor)


def _exponent() -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    return (lambda alpha: -log2(alpha)), (lambda exponent: min(1.0, 2.0**-exponent))


def _microseconds() -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    return (lambda us: us / 1000), (lambda ms: round(ms * 1000))


NO_LIMIT_PAGES = 2**62
"""What stands for no limit where a limit cannot be left out: more pages than there are."""


def _pages_of_mib() -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    pages_per_mib = 256
    return (
        lambda mib: mib * pages_per_mib if mib else NO_LIMIT_PAGES,
        lambda pages: 0 if pages == NO_LIMIT_PAGES else pages / pages_per_mib,
    )


COLLOID_ON_HEMEM = Layer(
    "colloid",
    "Colloid's HeMem, pebs.h: a name without a value there is defined or not",
    {
        "colloid_shift_mode": Setting(
            "COLLOID_EXPR",
            "",
            *_words({"binary_search": "COLLOID_BINSEARCH", "closed_form": "COLLOID_EXPR3"}),
        ),
        "colloid_delta": Setting("COLLOID_DELTA"),
        "colloid_epsilon": Setting("COLLOID_EPSILON"),
        "colloid_ewma_alpha": Setting("COLLOID_EWMA"),
        "colloid_quantum_ms": Setting("PEBS_KSWAPD_INTERVAL", "us", *_scaled(1000)),
        "colloid_dynamic_limit": Setting("COLLOID_DYNAMIC_LIMIT"),
        "colloid_page_find": Setting(
            "PAGE_FINDING", "", *_words({"bins": "HISTOGRAM", "sort_pairs": "SCAN_AND_SORT", "list": "none"})
        ),
        "colloid_use_cooled_counts": Setting("COLLOID_COOLING"),
    },
)

COLLOID_ON_MEMTIS = Layer(
    "colloid",
    "Colloid's Memtis, module colloid-mon: constants, rebuild; whole exponents, intervals and pages there",
    {
        "colloid_delta": Setting("COLLOID_DELTA_PERCENT", "%", *_scaled(100)),
        "colloid_epsilon": Setting("COLLOID_EPSILON_PERCENT", "%", *_scaled(100)),
        "colloid_ewma_alpha": Setting("EWMA_EXP", "powers of 1/2", *_exponent()),
        "colloid_latency_sample_interval_us": Setting(
            "SAMPLE_INTERVAL_MS", "ms; 0: define SPINPOLL instead", *_microseconds()
        ),
        "colloid_quantum_ms": Setting("MIGRATION_QUANTUM_MS", "ms"),
        "colloid_static_limit_mib": Setting(
            "htmm_migration_limit_nr_pages", "4 KiB pages, in /sys/kernel/mm/htmm", *_pages_of_mib()
        ),
    },
)

COLLOID_ON_HINT_FAULTS = Layer(
    "colloid",
    "Colloid's Linux 6.3, 4 in numa_balancing, module colloid-mon: constants, rebuild; whole numbers there",
    {
        "colloid_ewma_alpha": Setting("EWMA_EXP", "powers of 1/2", *_exponent()),
        "colloid_latency_sample_interval_us": Setting(
            "SAMPLE_INTERVAL_MS", "ms; 0: define SPINPOLL instead", *_microseconds()
        ),
    },
    mode_bits=4,
)

ALTO = Layer(
    "alto",
    "Alto's run script, which compares AOL with numbers of its own and writes {file} once a period",
    {
        "alto_aol_low_cycles": Setting("AOL_LOW", "cycles"),
        "alto_aol_gap_cycles": Setting("AOL_GAP", "cycles from there to where all pass"),
        "alto_curve": Setting("AOL_STEPS"),
        "alto_sample_period_s": Setting("PERIOD", "s"),
        "alto_min_load_latency_cycles": Setting("MIN_LATENCY", "cycles"),
    },
)
PROMOTE_SCALE = "/proc/sys/kernel/numa_balancing_page_promote_scale"
PTE_SCALE = "/proc/sys/kernel/numa_balancing_pte_scale"


def layer_for(wrapper: str, base: str) -> Layer:
    """The settings of `wrapper` around the system `base`; raises `AdapterError` for an unknown wrapper."""
    if wrapper == "colloid":
        return {"hemem": COLLOID_ON_HEMEM, "memtis": COLLOID_ON_MEMTIS}.get(base, COLLOID_ON_HINT_FAULTS)
    if wrapper == "alto":
        file = PROMOTE_SCALE if base == "tpp" else PTE_SCALE
        return Layer(ALTO.name, ALTO.place.format(file=file), ALTO.settings)
    raise AdapterError(f"wrapper '{wrapper}' has no adapter yet; add it to adapters/layers.py")
