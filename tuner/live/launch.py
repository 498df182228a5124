"""What is run on a host for a trial, and what its output means."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tiertune.tuner.backend import ConfigRejected, HostUnfit, TrialTimeout
from tiertune.tuner.live.fitness import Nodes
from tiertune.tuner.trial import Config, Trial
from tiertune.units import fast_tier_bytes
from tiertune.workloads.live import HostPart

BARE = "notier"
"""The system that is nothing but the kernel's first touch: its workload runs without a daemon."""

FOLDER = "@FOLDER@"
"""In a command: the folder of the trial, wherever that is."""

KNOBS, SETTINGS, REPORT = "knobs.json", "settings.json", "report.json"

OF_DAEMON = "tierd: "
"""What every line of tierd on the error output begins with."""

BAD_CONFIG, UNFIT, WORKLOAD_FAILED = 2, 3, 4
"""Exit codes of tierd: a refused config and a host that is no place for it, where it took nothing in hand;
and a program that said that it failed, whose own exit code is in the report."""

MOST_RAW = 16_384


@dataclass(frozen=True)
class Launch:
    """A command for a host, with files of its folder before and after."""

    command: list[str]
    files: dict[str, str] = field(default_factory=dict)
    fetch: list[str] = field(default_factory=list)


def launch(trial: Trial, config: Config, part: HostPart, threads: int, nodes: Nodes) -> Launch:
    """The command of a trial on a host: the workload's own, below `tierd run` with the config in a file."""
    words = _words(trial, part, threads)
    if trial.system == BARE:
        return Launch(words)
    command = ["tierd", "run", "--policy", trial.system, "--knobs", f"{FOLDER}/{KNOBS}"]
    command += ["--fast", str(nodes.fast), "--slow", str(nodes.slow)]
    command += ["--fast-bytes", str(fast_bytes(trial, part))]
    command += ["--page-bytes", str(trial.scenario.page_bytes), "--seed", str(trial.seed)]
    command += ["--kill-workload", "--report", f"{FOLDER}/{REPORT}", "--", *words]
    return Launch(command, {KNOBS: json.dumps(config)}, [REPORT])


def launch_held(
    trial: Trial,
    part: HostPart,
    threads: int,
    settings: Sequence[Mapping[str, object]],
    group: str | None = None,
    prefix: Sequence[str] = (),
) -> Launch:
    """The command of a trial whose system the host's kernel runs: the workload below `tierd hold`.

    `group` is the control group that Memtis' kernel is to look after; `prefix` stands before the workload.
    """
    command = ["tierd", "hold", "--settings", f"{FOLDER}/{SETTINGS}", "--kill-workload"]
    command += [] if group is None else ["--group", group, "--htmm"]
    command += ["--report", f"{FOLDER}/{REPORT}", "--", *prefix, *_words(trial, part, threads)]
    return Launch(command, {SETTINGS: json.dumps(list(settings))}, [REPORT])


def fast_bytes(trial: Trial, part: HostPart) -> int:
    """What the ratio makes fast of a run's memory."""
    return fast_tier_bytes(part.footprint, trial.scenario.ratio, trial.scenario.page_bytes)


def _words(trial: Trial, part: HostPart, threads: int) -> list[str]:
    # A seed of tiertune has 53 bits, more than some programs take.
    return part.words(threads, trial.seed % 2**31)


def metrics_of(
    trial: Trial, part: HostPart, said: Mapping[str, Any], of_daemon: Mapping[str, Any]
) -> dict[str, float]:
    """The metrics of a run from what the module returned and what the daemon reported.

    Raises TrialTimeout, ConfigRejected, HostUnfit, or RuntimeError where the command failed; NoMetrics where
    its output is not as the workload's file says.
    """
    if said["ended"] == "timeout":
        raise TrialTimeout(f"ended after {part.timeout_s:g} s, the timeout_s of the workload's host part")
    if trial.system != BARE:
        _check_daemon(said)
    code = _code(trial, said, of_daemon)
    if code not in part.ends_well:
        errors = _last_line(said["errors"], but=OF_DAEMON)
        raise RuntimeError(f"the command ended with {code}: {errors or 'it said nothing'}")
    metrics = part.read(said["output"], said["errors"], _wall_s(trial, said, of_daemon))
    runtime_s = metrics.get("runtime_s")
    if trial.cap is not None and runtime_s is not None and runtime_s > trial.cap:
        sentence = f"given up after {trial.cap:.6g} s, as slower than the best by more than the cap allows"
        raise TrialTimeout(sentence, {"runtime_s": trial.cap})
    return metrics


def _check_daemon(said: Mapping[str, Any]) -> None:
    """Raises ConfigRejected, HostUnfit or RuntimeError where tierd says that something else than the program
    has failed."""
    code, errors = said["returncode"], _last_line(said["errors"])
    if code == BAD_CONFIG:
        raise ConfigRejected(errors or "tierd refuses this config")
    if code == UNFIT:
        raise HostUnfit(errors or "tierd cannot work on this host")
    if code not in (0, WORKLOAD_FAILED):
        raise RuntimeError(f"the command ended with {code}: {errors or 'it said nothing'}")


def _code(trial: Trial, said: Mapping[str, Any], of_daemon: Mapping[str, Any]) -> int | str | None:
    """The exit code of the program itself, negative for a signal; in words where that is not known."""
    code: int | None = said["returncode"]
    if trial.system == BARE or code != WORKLOAD_FAILED:
        return code
    # 2 or 3 of a program says nothing of config or host.
    workload = _workload(of_daemon)
    own, killed_by = workload.get("exit_code"), workload.get("signal")
    if isinstance(own, int):
        return own
    return -killed_by if isinstance(killed_by, int) else f"{code} of tierd"


def _wall_s(trial: Trial, said: Mapping[str, Any], of_daemon: Mapping[str, Any]) -> float | None:
    """How long the program itself ran; None where nobody says. What tierd does before and afterwards, such as
    setting huge pages aside, is no time of it."""
    ran_s = said["wall_s"] if trial.system == BARE else _workload(of_daemon).get("runtime_s")
    return float(ran_s) if isinstance(ran_s, int | float) else None


def _workload(of_daemon: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a report says of the program: that of `tierd hold` is of nothing else."""
    found = of_daemon.get("workload", of_daemon)
    return found if isinstance(found, Mapping) else {}


def raw_of(host: str, said: Mapping[str, Any]) -> str:
    """What of a run is kept beside its metrics: who ran it, for how long, the end of what it said."""
    document = {
        "host": host,
        "wall_s": said["wall_s"],
        "output": said["output"][-MOST_RAW:],
        "errors": said["errors"][-MOST_RAW:],  # where some programs say their metrics
        "report": said.get("fetched", {}).get(REPORT, "")[-MOST_RAW:],
    }
    return json.dumps(document, sort_keys=True)


def _last_line(text: str, but: str | None = None) -> str:
    """The last line that says something; `but` is what lines that do not count begin with."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if but is not None:
        lines = [line for line in lines if not line.startswith(but)]
    return lines[-1][-500:] if lines else ""
