"""The uncertain parameters of the model: range and source of each, declared here and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tiertune.machines.definition import Machine

Document = dict[str, Any]


@dataclass(frozen=True)
class Uncertain:
    """A parameter, what it could be as well, and how a machine file takes it. Ranges are in `unit`."""

    name: str
    unit: str
    meaning: str
    low: float
    high: float
    source: str
    put: Callable[[Document, float], None]

    def at(self, share: float) -> float:
        """The value at a share of the range, 0 to 1; ratios are even, since all of these are scales."""
        return float(self.low * (self.high / self.low) ** share)


def _figure(key: str) -> Callable[[Document, float], None]:
    def put(machine: Document, value: float) -> None:
        machine[key] = value

    return put


def _of_class(name: str) -> Callable[[Document, float], None]:
    def put(machine: Document, value: float) -> None:
        machine["parallelism"] = {**(machine.get("parallelism") or {}), name: value}

    return put


def _gathers(machine: Document, value: float) -> None:
    """As many gathers in flight as the reorder buffer has room for, at `value` instructions each."""
    window = machine.get("window_instructions", Machine.model_fields["window_instructions"].default)
    _of_class("gather")(machine, min(max(window / value, 1.0), 64.0))


def _curves(machine: Document, power: float) -> None:
    """Every curve's multiples to a power: 1 leaves them, 0.5 halves the rise in the logarithm."""
    for tier in machine["tiers"]:
        tier["curve"] = [(place, min(multiple**power, 100.0)) for place, multiple in tier["curve"]]


def _random_lines(machine: Document, power: float) -> None:
    """What single lines have of the bandwidth of sequences, to a power: 1 leaves it, 0 would be no loss."""
    for tier in machine["tiers"]:
        for kind in ("read_gbps", "write_gbps"):
            if (random := tier.get(f"random_{kind}")) is not None:
                tier[f"random_{kind}"] = tier[kind] * (random / tier[kind]) ** power


PARAMETERS = (
    Uncertain(
        "migration_cost",
        "times what systems declare",
        "time of a page's move, fixed part and copy",
        0.5,
        2.0,
        "12 us for 4 KiB in all (Soar/Alto, section 5.1), 3 to 5 us for remapping alone (as Nomad's is taken"
        " to cost), twice that under lock contention: a factor of two both ways is our judgement",
        _figure("migration_cost"),
    ),
    Uncertain(
        "parallelism_random",
        "misses in flight",
        "independent random reads that overlap",
        4.0,
        12.0,
        "4 to 6 in the literature on GUPS; 9 to 11 measured by tiertune calibrate; at most 12 fill buffers",
        _of_class("random"),
    ),
    Uncertain(
        "parallelism_update",
        "misses in flight",
        "independent random updates that overlap",
        4.0,
        12.0,
        "as parallelism_random; stores drain through the same fill buffers",
        _of_class("update"),
    ),
    Uncertain(
        "parallelism_locked",
        "misses in flight",
        "independent random updates by locked instructions that overlap",
        1.0,
        8.0,
        "1 by Intel's manual; measured by tiertune calibrate: 6.5 on Emerald Rapids, of 11.5 plain updates,"
        " and all on Zen 4",
        _of_class("locked"),
    ),
    Uncertain(
        "curve_shape",
        "power of the multiples",
        "how steeply latency rises with load",
        0.5,
        1.5,
        "public Mess curves at 85 % of peak: 1.12 (a CXL device), 1.33 (UPI), 1.49 (DDR5), 1.75 (DDR4)",
        _curves,
    ),
    Uncertain(
        "random_bandwidth",
        "power of the share",
        "what single lines at random have of the bandwidth of sequences, where the machine file says so",
        0.5,
        1.5,
        "Optane: a quarter with 64 bytes, half with 128 (Yang et al., FAST'20), as its buffer merges some;"
        " DRAM: 0.885 of reads there, 0.85 or less where reads and writes mix, by Colloid's latencies",
        _random_lines,
    ),
    Uncertain(
        "sample_assist_ns",
        "ns",
        "time that a hardware sample takes the sampled thread",
        100.0,
        500.0,
        "200 to 300 ns published (Akiyama and Hirofuchi), without what it does to caches: a factor of two",
        _figure("sample_assist_ns"),
    ),
    Uncertain(
        "hint_fault_ns",
        "ns",
        "time that a hint fault takes the faulting thread",
        500.0,
        3000.0,
        "a minor fault takes 500 to 1500 ns on bare metal, a hint fault 1000 to 2000, more when virtualised",
        _figure("hint_fault_ns"),
    ),
    Uncertain(
        "shootdown_ns",
        "ns",
        "time that a core loses to the interrupt by which it forgets a page that moves",
        500.0,
        2000.0,
        "500 to 1000 ns published for each core; twice that for what the interrupted core's caches lose",
        _figure("shootdown_ns"),
    ),
    Uncertain(
        "window_instructions",
        "instructions",
        "reorder buffer, behind which computing overlaps with misses",
        97.0,
        512.0,
        "vendors' figures: 224 Skylake, 352 Ice Lake, 512 Sapphire Rapids; 97 is Skylake's scheduler, the"
        " least that could be meant",
        _figure("window_instructions"),
    ),
    # Behind the window, of which it is a part.
    Uncertain(
        "gather_instructions",
        "instructions",
        "reorder buffer for each read of a graph's neighbours that overlaps with others",
        37.0,
        90.0,
        "38 to 64: 3 to 5 reads in the literature on graph kernels (taken to be of buffers of 168 to 224), 6"
        " to 8 measured on Zen 4 (320), 8 to 11 that make the model as fast as GAPBS on Emerald Rapids (512);"
        " a margin above, for more branches",
        _gathers,
    ),
)


def changed_machine(machine: Machine, values: Mapping[str, float]) -> Machine:
    """`machine` with parameters at these values, checked like a file."""
    document = machine.model_dump(mode="json", exclude_unset=True)
    for parameter in PARAMETERS:
        if parameter.name in values:
            parameter.put(document, values[parameter.name])
    # A figure that the file left to its default needs a source when it is given.
    sources = document["sources"]
    for name in values.keys() & {"window_instructions"}:
        sources.setdefault(name, "varied by tiertune sensitivity")
    return Machine.model_validate(document)


def varied_on(parameters: Sequence[Uncertain], machines: Iterable[Machine]) -> list[Uncertain]:
    """Those that one of `machines` depends on: the others would count the nominal model again."""
    tried = list(machines)

    def changes(parameter: Uncertain) -> bool:
        ends = ({parameter.name: parameter.low}, {parameter.name: parameter.high})
        return any(changed_machine(machine, end) != machine for machine in tried for end in ends)

    return [parameter for parameter in parameters if changes(parameter)]


@dataclass(frozen=True)
class Sample:
    """One model that is tried: `values` differ from the machine file's own; none do at the nominal one."""

    kind: str
    """nominal, low, high (one parameter) or together (all of them)."""
    name: str
    values: Mapping[str, float]


def samples_of(parameters: Sequence[Uncertain], together: int, seed: int = 1) -> list[Sample]:
    """The nominal model, every parameter at both ends alone, and a Latin hypercube of all of them."""
    found = [Sample("nominal", "nominal", {})]
    for parameter in parameters:
        found.append(Sample("low", parameter.name, {parameter.name: parameter.low}))
        found.append(Sample("high", parameter.name, {parameter.name: parameter.high}))
    if together:
        from scipy.stats import qmc

        points = qmc.LatinHypercube(len(parameters), seed=seed).random(together)
        for number, point in enumerate(points):
            shares = zip(parameters, point, strict=True)
            values = {parameter.name: parameter.at(float(share)) for parameter, share in shares}
            found.append(Sample("together", f"together-{number}", values))
    return found
