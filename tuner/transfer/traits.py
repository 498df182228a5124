"""What is known of a context before anything runs in it: all that distances between contexts are made of."""

from __future__ import annotations

from dataclasses import dataclass

from tiertune.machines.definition import Machine
from tiertune.tuner.trial import Scenario, fingerprint
from tiertune.units import format_size, parse_ratio
from tiertune.workloads.definition import Workload

DIGEST_DIGITS = 16
ALONE = "alone"
"""In the place of co-runners where there are none."""


@dataclass(frozen=True)
class Traits:
    """Plain figures, so that a file can hold them where the workload and the machine are no longer at hand.

    `program` is what runs, whatever its input; the digests are of the whole workload and machine, as their
    files may change under one name. Gaps are of the next tier to the fast one, unloaded; `contention` is the
    traffic of co-runners as a share of the tiers' peaks, added up, and `co_runners` the same in words.
    """

    program: str
    workload: str
    workload_digest: str
    machine: str
    machine_digest: str
    latency_gap: float
    bandwidth_gap: float
    threads: int
    ratio: str
    page_bytes: int
    contention: float = 0.0
    co_runners: str = ALONE

    @property
    def slow_per_fast(self) -> float:
        """Bytes of slow memory for each byte of fast memory."""
        fast, slow = parse_ratio(self.ratio)
        return slow / fast

    @property
    def words(self) -> dict[str, str]:
        """What tells contexts apart, in words, by the name of the part."""
        return {
            "workload": self.workload,
            "machine": self.machine,
            "ratio": self.ratio,
            "threads": f"{self.threads}t",
            "pages": format_size(self.page_bytes),
            "contention": self.co_runners,
        }


def traits_of(workload: Workload, machine: Machine, scenario: Scenario) -> Traits:
    """The traits of a scenario of these two."""
    record, tiers = workload.sim.record, machine.tiers
    fast, following = tiers[0], tiers[1]
    loads = [(tiers[one.tier], one) for one in scenario.contention]
    shares = [one.read_gbps / tier.read_gbps + one.write_gbps / tier.write_gbps for tier, one in loads]
    told = "+".join(f"tier{one.tier}:r{one.read_gbps:g}w{one.write_gbps:g}" for one in scenario.contention)
    return Traits(
        program=record.kernel if record is not None else workload.name,
        workload=workload.name,
        workload_digest=fingerprint(workload.model_dump(mode="json"))[:DIGEST_DIGITS],
        machine=machine.name,
        machine_digest=fingerprint(machine.relevant(scenario.page_bytes))[:DIGEST_DIGITS],
        latency_gap=following.latency_ns / fast.latency_ns,
        bandwidth_gap=fast.read_gbps / following.read_gbps,
        threads=scenario.threads or workload.threads,
        ratio=scenario.ratio,
        page_bytes=scenario.page_bytes,
        contention=sum(shares),
        co_runners=told or ALONE,
    )
