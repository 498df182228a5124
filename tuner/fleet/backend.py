"""Live trials on the hosts of an inventory, and simulated ones wherever they ran before.

A scenario is live where its workload says how it runs on a host. A host that fails is set aside and its trial
goes to another one; a host whose memory drifts is, too.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from tiertune.files import InputError
from tiertune.tuner.backend import STOPPED, Backend, BackendLost, HostUnfit, Notify
from tiertune.tuner.execution import ended
from tiertune.tuner.fleet.inventory import Host
from tiertune.tuner.fleet.likeness import differences, traits
from tiertune.tuner.fleet.play import Play, Played
from tiertune.tuner.fleet.pool import Block, Pool
from tiertune.tuner.fleet.yardstick import YARDSTICK, Drift
from tiertune.tuner.live import report
from tiertune.tuner.live.fitness import Nodes
from tiertune.tuner.live.launch import REPORT, launch, raw_of
from tiertune.tuner.live.measurement import figures
from tiertune.tuner.live.probing import LOCALE, MOST_S, stranger_in
from tiertune.tuner.live.secret import secrets_of
from tiertune.tuner.trial import Config, Measurement, Scenario, Status, Trial
from tiertune.workloads.definition import Workload
from tiertune.workloads.live import HostPart

AROUND_S = 900.0
"""What a play may take beside the trial itself: connecting, settings, the yardstick, ending what is left."""


class FleetBackend(Backend):
    """Runs live trials by Ansible; `inner` checks configs, and runs what has no host part.

    `workloads` has the workload of each scenario by the scenario's key. Hosts that differ are refused unless
    `mixed`. `begun` has the hosts of blocks of a judgement that are to be completed. Raises BackendLost where
    no host is left.
    """

    name: ClassVar[str] = "fleet"

    def __init__(
        self,
        inner: Backend,
        inventory: Path,
        hosts: Sequence[Host],
        workloads: Mapping[str, Workload],
        notify: Notify,
        mixed: bool = False,
        begun: Mapping[Block, str] | None = None,
    ) -> None:
        self._inner, self._inventory, self._notify, self._mixed = inner, inventory, notify, mixed
        self._workloads, self._pool = workloads, Pool(hosts, begun)
        self._traits: dict[str, dict[str, str]] = {}
        self._drift = {host.name: Drift(host.drift_limit) for host in hosts}
        self._plays: set[Play] = set()
        self._mutex = threading.Lock()
        self._stopped = False
        self._looked = False
        self._probed: list[list[str]] = []
        # A block of a judgement waits for its own host, and must not keep others from theirs meanwhile.
        self.queue = 6 * len(hosts)

    def prepare(self, scenario: Scenario, notify: Notify) -> None:
        """Prepares the simulated twin, which checks that the scenario fits, and looks at the hosts once.

        A host whose program is not that of the workload is set aside. Raises HostUnfit where hosts differ, or
        none is left, and InputError for a secret that is not there.
        """
        self._inner.prepare(scenario, notify)
        part = self._workloads[scenario.key].on_host
        if part is None:
            return
        _check_secrets(self._workloads[scenario.key])
        if not self._looked:
            self._look(notify)
            self._looked = True
        self._probe(part)

    def apply(self, trial: Trial) -> Config:
        """Checks the config here; on a host, tierd takes it from a file or refuses it."""
        return self._inner.apply(trial)

    def run(self, trial: Trial, timeline_points: int = 0) -> Measurement:
        """What came of it on some host, which it names also where it failed. Raises BackendLost where no host
        is left."""
        if not self._is_live(trial.scenario):
            return self._inner.run(trial, timeline_points)
        while True:
            with self._pool.lent(trial) as host:
                try:
                    found = ended(partial(self._on, host, trial, timeline_points))
                except _HostLost as lost:
                    self._lose(host, lost.why)
                else:
                    return replace(found, worker=host.name)

    def facts(self) -> dict[str, str]:
        """Those of the simulator, and what the hosts are; where they differ, host by host."""
        found = {**self._inner.facts(), "backend": self.name}
        if self._traits:
            found["hosts"] = ", ".join(sorted(self._traits))
            shared = next(iter(self._traits.values()))
            for name, value in shared.items():
                if all(entry.get(name) == value for entry in self._traits.values()):
                    found[f"hosts: {name}"] = value
            for sentence in differences(self._traits):
                name, _, text = sentence.partition(": ")
                found[f"hosts: {name}"] = text
        return found

    def cancel(self) -> None:
        """Ends every live trial, on its host as well; trials in flight raise BackendLost. For any thread."""
        self._pool.close(STOPPED)
        with self._mutex:
            self._stopped = True
            plays = list(self._plays)
        for play in plays:
            play.cancel()

    def close(self) -> None:
        """Ends what still runs. Idempotent."""
        self.cancel()
        self._inner.close()

    def _is_live(self, scenario: Scenario) -> bool:
        return self._workloads[scenario.key].on_host is not None

    def _on(self, host: Host, trial: Trial, timeline_points: int) -> Measurement:
        workload = self._workloads[trial.scenario.key]
        part = workload.on_host
        assert part is not None
        threads = trial.scenario.threads or workload.threads
        nodes = Nodes(host.fast_node, host.slow_node)
        order, secrets = launch(trial, self._inner.apply(trial), part, threads, nodes), secrets_of(workload)
        variables = {
            "trial_name": f"{trial.purpose}-{trial.number}",
            "trial_command": order.command,
            "trial_files": order.files,
            "trial_fetch": order.fetch,
            "trial_timeout_s": part.timeout_s,
            "trial_yardstick": YARDSTICK,
            "trial_secrets_of_workload": secrets.variables,
        }
        self._notify(f"{host.name}: {trial.purpose} {trial.number} of {trial.cell}")
        said = self._played("trial.yml", host, "tiertune_trial", variables, part.timeout_s)
        # Ansible has taken them out on the host; a text that it cut in the middle of one is as it was.
        said = {**said, **{name: secrets.hidden(said[name]) for name in ("output", "errors") if name in said}}
        drift = self._drift[host.name].seen(said.get("yardstick", ""))
        if drift is not None:
            raise _HostLost(drift)
        try:
            of_daemon = report.parsed(said.get("fetched", {}).get(REPORT, ""))
            metrics, timeline = figures(trial, part, said, of_daemon, timeline_points)
        except HostUnfit as error:
            raise _HostLost(str(error)) from error
        wall_s, raw = float(said["wall_s"]), raw_of(host.name, said)
        return Measurement(Status.OK, metrics, timeline, wall_s=wall_s, raw=raw)

    def _played(
        self, name: str, host: Host, action: str, variables: Mapping[str, Any], timeout_s: float
    ) -> dict[str, Any]:
        """The result of a play's `action`, which ends itself after `timeout_s`, on one host. Raises
        _HostLost, or BackendLost after `cancel`."""
        play = Play(name, self._inventory, action, host.name, variables, within_s=timeout_s + AROUND_S)
        played = self._play(play)
        if played.cancelled:
            raise BackendLost(STOPPED)
        why = played.unreachable.get(host.name) or played.failed.get(host.name)
        if why is not None or host.name not in played.results:
            raise _HostLost(why or played.message or "Ansible did not say what came of it")
        result = played.results[host.name]
        if result.get("ended") not in (None, "finished", "timeout"):
            raise _HostLost(f"the trial was ended on the host: {result['ended']}")
        if result.get("left_running"):
            raise _HostLost("processes of the trial could not be ended")
        return result

    def _play(self, play: Play) -> Played:
        with self._mutex:
            # One that was not there yet when `cancel` looked for it finds out here.
            if self._stopped:
                raise BackendLost(STOPPED)
            self._plays.add(play)
        try:
            return play.run()
        finally:
            with self._mutex:
                self._plays.discard(play)

    def _lose(self, host: Host, why: str) -> None:
        if self._pool.set_aside(host, why):
            left = len(self._pool.in_use())
            self._notify(f"{host.name} is set aside: {why}; {left} host{'s' if left != 1 else ''} left")

    def _look(self, notify: Notify) -> None:
        """Compares the hosts, and sets aside those that cannot be reached."""
        played = self._play(Play("facts.yml", self._inventory, "tiering_facts", within_s=AROUND_S))
        if not played.ended:
            raise HostUnfit(f"the hosts cannot be looked at: {played.message or 'Ansible did not say why'}")
        for host in self._pool.in_use():
            result = played.results.get(host.name)
            if result is None:
                why = played.unreachable.get(host.name) or played.failed.get(host.name) or "it did not answer"
                self._lose(host, why)
            else:
                self._traits[host.name] = traits(result["facts"], host.fast_node, host.slow_node)
        self._some_left()
        found = differences(self._traits)
        if found and not self._mixed:
            told = "\n".join(found)
            raise HostUnfit(
                f"hosts differ, so that a trial on one says little of another:\n{told}\n"
                "leave some out of the inventory, or measure on them all the same with --mixed-hosts"
            )
        for sentence in found:
            notify(f"hosts differ in {sentence}")

    def _probe(self, part: HostPart) -> None:
        """Sets hosts aside whose program does not say what it should. Each program is asked once."""
        if part.probe is None:
            return
        command = [part.command[0], *part.probe.arguments]
        if command in self._probed:
            return
        names = [host.name for host in self._pool.in_use()]
        variables = {
            "trial_name": "probe",
            # Not as the trials' environment, which is the inventory's.
            "trial_command": ["env", *(f"{name}={value}" for name, value in LOCALE.items()), *command],
            "trial_timeout_s": MOST_S,
        }
        limit, within_s = ",".join(names), MOST_S + AROUND_S
        play = Play("trial.yml", self._inventory, "tiertune_trial", limit, variables, within_s=within_s)
        played = self._play(play)
        if played.cancelled:
            raise BackendLost(STOPPED)
        if not played.ended:
            raise HostUnfit(f"the hosts cannot be asked: {played.message or 'Ansible did not say why'}")
        for host in self._pool.in_use():
            result = played.results.get(host.name)
            why: str | None
            if result is None:
                why = played.unreachable.get(host.name) or played.failed.get(host.name) or "it did not answer"
            else:
                in_time = result["ended"] != "timeout"
                text = result["output"] + result["errors"] if in_time else None
                why = stranger_in(part.probe, command, text)
            if why is not None:
                self._lose(host, why)
        self._some_left()
        self._probed.append(command)

    def _some_left(self) -> None:
        """Raises HostUnfit where every host was set aside."""
        if not self._pool.in_use():
            reasons = "; ".join(f"{name}: {why}" for name, why in sorted(self._pool.aside.items()))
            raise HostUnfit(f"no host can be used ({reasons})")


def _check_secrets(workload: Workload) -> None:
    """Raises InputError for a secret that is not there, or that Ansible would not hand on as it is."""
    wrong = [
        f"workload {workload.name}: secret_environment.{name}: the value holds {{{{, {{% or {{#, which"
        f" Ansible takes for an expression; leave it out here, and set {name} in trial_secrets of the"
        " inventory as !unsafe"
        for name, value in secrets_of(workload).variables.items()
        if re.search(r"\{[{%#]", value)
    ]
    if wrong:
        raise InputError(*wrong)


@dataclass
class _HostLost(BackendLost):
    """A host that can have no further trial; the trial itself is not to blame."""

    why: str
