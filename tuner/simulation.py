"""Trials on the modelled machine, in this process; the engine releases the interpreter lock while it runs."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from tiertune import engine
from tiertune.adapters.base import AdapterError
from tiertune.adapters.registry import adapter_for
from tiertune.files import InputError
from tiertune.machines.definition import Machine, load_machine
from tiertune.memory_limit import TooLittleMemory
from tiertune.tuner.backend import NOTES, Backend, ConfigRejected, HostUnfit, Notify, TrialTimeout
from tiertune.tuner.memory_need import check_memory
from tiertune.tuner.search.fidelity import shortened
from tiertune.tuner.trial import Config, Measurement, Scenario, Status, Trial, canonical
from tiertune.units import fast_tier_bytes
from tiertune.workloads.definition import Workload, load_workload

GIVE_UP_AFTER = 50.0
"""Times as long as a run without tiering: settings that take longer are not waited for. Threads that fault
again before a page has come may get nowhere, and such a run would take hours."""


@dataclass(frozen=True)
class _Bed:
    """What all trials of a scenario share."""

    workload: engine.EngineWorkload
    machine: dict[str, Any]
    fast_bytes: int
    notes: tuple[str, ...]
    give_up_s: float = math.inf


class SimBackend(Backend):
    """Runs trials in the engine. `profiles` is the folder where recorded workloads are cached.

    `workload_of` and `machine_of` find the files that a scenario names: `campaign.workload` and
    `campaign.machine` where paths are relative to a campaign file.
    """

    name: ClassVar[str] = "sim"

    def __init__(
        self,
        profiles: Path,
        workload_of: Callable[[str], Workload] = load_workload,
        machine_of: Callable[[str], Machine] = load_machine,
    ) -> None:
        self._profiles = profiles
        self._workload_of = workload_of
        self._machine_of = machine_of
        self._beds: dict[str, _Bed] = {}
        self._short: dict[str, _Bed] = {}
        self._mutex = threading.Lock()

    def prepare(self, scenario: Scenario, notify: Notify) -> None:
        """Record (or read back) the workload's profile and hand it to the engine. Raises InputError on a bad
        fit."""
        with self._mutex:
            if scenario.key not in self._beds:
                self._beds[scenario.key] = self._bed(scenario, notify)

    def apply(self, trial: Trial) -> Config:
        """The config as the system's adapter put it in force and read it back, defaults filled in."""
        adapter = adapter_for(trial.system)
        try:
            applied = adapter.start(trial.config)
            adapter.verify(applied)
        except (engine.EngineError, AdapterError) as error:
            raise ConfigRejected(str(error)) from error
        return dict(applied.config)

    def run(self, trial: Trial, timeline_points: int = 0) -> Measurement:
        """One simulated run. Equal trials give bit-equal metrics.

        A trial whose simulated runtime passes its cap, or 50 times that of a run without tiering, ends there
        as a timeout, as it would on a host.
        """
        bed = self._bed_of(trial)
        limit = min(bed.give_up_s, trial.cap or math.inf)
        asked = self.request(trial, bed, timeline_points)
        result = engine.run(bed.workload, asked | ({"give_up_s": limit} if limit < math.inf else {}))
        if result["metrics"]["runtime_s"] > limit:
            why = "as slower than the best by more than the cap allows"
            if limit != trial.cap:
                why = f"{GIVE_UP_AFTER:g} times as long as a run without tiering takes"
            raise TrialTimeout(f"given up after {limit:.6g} s, {why}", {"runtime_s": limit})
        raw = canonical({"gauges": result["gauges"]}) if result.get("gauges") else None
        timeline = dict(result["timeline"]) if timeline_points else {}
        return Measurement(Status.OK, dict(result["metrics"]), timeline, raw=raw)

    def page_map(self, trial: Trial, bins: int, moments: int) -> dict[str, Any]:
        """The trial run again, to see which pages are read and which are in fast memory.

        `pages` in each bin, `objects` with their first bin, `time_s` of up to `moments` moments, and by
        moment and bin `reads_per_s` and `fast_share`. Raises EngineError where the engine is too old for it.
        """
        bed = self._bed_of(trial)
        asked = {**self.request(trial, bed, 0), "page_map": {"bins": bins, "moments": moments}}
        return dict(engine.run(bed.workload, asked)["page_map"])

    def _bed_of(self, trial: Trial) -> _Bed:
        if trial.fidelity == 1.0:
            return self._beds[trial.scenario.key]
        with self._mutex:
            key = f"{trial.scenario.key} x {trial.fidelity:g}"
            if key not in self._short:
                self._short[key] = self._bed(trial.scenario, lambda _: None, trial.fidelity)
            return self._short[key]

    def request(self, trial: Trial, bed: _Bed, timeline_points: int) -> dict[str, Any]:
        """What the engine is asked to run."""
        return {
            "machine": bed.machine,
            "system": trial.system,
            "config": trial.config,
            "page_bytes": trial.scenario.page_bytes,
            "fast_bytes": bed.fast_bytes,
            "seed": trial.seed,
            "noise": trial.noise,
            "mode": "fast",
            "timeline_points": timeline_points,
            "contention": [asdict(entry) for entry in trial.scenario.contention],
        }

    def notes(self, scenario: Scenario) -> tuple[str, ...]:
        """What was scaled to carry the workload to its full size, and how."""
        return self._beds[scenario.key].notes

    def facts(self) -> dict[str, str]:
        """The engine's version and digest, and what was scaled in each prepared scenario, by its key."""
        notes = {NOTES + key: "\n".join(bed.notes) for key, bed in self._beds.items() if bed.notes}
        versions = {"engine": engine.version(), "engine digest": engine.sources()}
        return {"backend": self.name, **versions, **notes}

    def _bed(self, scenario: Scenario, notify: Notify, share: float = 1.0) -> _Bed:
        from tiertune.tuner.campaign import fit_mistake
        from tiertune.workloads.profile import profile_for

        definition, machine = self._workload_of(scenario.workload), self._machine_of(scenario.machine)
        threads = scenario.threads or definition.threads
        if share < 1.0:
            definition = shortened(definition, share)
        try:
            workload = profile_for(
                definition, machine, threads, self._profiles, notify, page_bytes=scenario.page_bytes
            )
        except engine.EngineError as error:
            raise InputError(f"workload {definition.name}: {error}") from error
        except TooLittleMemory as error:
            raise HostUnfit(str(error)) from error
        described = workload.describe()
        # Known only now: the footprint of a graph follows from its edges.
        misfit = fit_mistake(described["footprint_bytes"], scenario.ratio, scenario.page_bytes, machine)
        if misfit:
            raise InputError(f"scenario {scenario.key}: ratio: {misfit}")
        check_memory(described["footprint_bytes"], scenario.page_bytes)
        fast = fast_tier_bytes(described["footprint_bytes"], scenario.ratio, scenario.page_bytes)
        document = json.loads(json.dumps(machine.document()))
        bed = _Bed(workload, document, fast, tuple(described.get("notes", ())))
        untiered = Trial("", "", 0, scenario, "notier", {}, seed=0)
        alone = engine.run(workload, self.request(untiered, bed, 0))["metrics"]["runtime_s"]
        return replace(bed, give_up_s=GIVE_UP_AFTER * alone)
