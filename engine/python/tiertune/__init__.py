"""tiertune finds, checks and compares the best settings of memory-tiering systems.

    import tiertune

    found = tiertune.run("hemem", "gups", "skx-numa", seeds="1-3")
    found.median["throughput_mops"]

What is below is loaded when it is first used, so that the import itself costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tiertune.adapters.base import AdapterError as AdapterError
    from tiertune.engine import EngineError as EngineError
    from tiertune.engine import PolicyFailed as PolicyFailed
    from tiertune.files import InputError as InputError
    from tiertune.policy import Bool as Bool
    from tiertune.policy import Choice as Choice
    from tiertune.policy import Context as Context
    from tiertune.policy import Extent as Extent
    from tiertune.policy import Fault as Fault
    from tiertune.policy import Float as Float
    from tiertune.policy import Gauge as Gauge
    from tiertune.policy import Int as Int
    from tiertune.policy import Mechanics as Mechanics
    from tiertune.policy import Migrated as Migrated
    from tiertune.policy import Needs as Needs
    from tiertune.policy import Overheads as Overheads
    from tiertune.policy import Policy as Policy
    from tiertune.policy import PolicyMistake as PolicyMistake
    from tiertune.policy import Sample as Sample
    from tiertune.policy import Sampler as Sampler
    from tiertune.policy import Topology as Topology
    from tiertune.policy import register as register
    from tiertune.policy import unregister as unregister
    from tiertune.tuner.api.campaigns import Progress as Progress
    from tiertune.tuner.api.campaigns import tune as tune
    from tiertune.tuner.api.comparing import ComparisonResult as ComparisonResult
    from tiertune.tuner.api.comparing import compare as compare
    from tiertune.tuner.api.evaluation import Run as Run
    from tiertune.tuner.api.evaluation import run as run
    from tiertune.tuner.api.explaining import Explanation as Explanation
    from tiertune.tuner.api.explaining import explain as explain
    from tiertune.tuner.api.loading import Profile as Profile
    from tiertune.tuner.api.loading import knobs as knobs
    from tiertune.tuner.api.loading import load_campaign as load_campaign
    from tiertune.tuner.api.loading import load_machine as load_machine
    from tiertune.tuner.api.loading import load_profile as load_profile
    from tiertune.tuner.api.loading import load_space as load_space
    from tiertune.tuner.api.loading import load_workload as load_workload
    from tiertune.tuner.api.loading import metrics as metrics
    from tiertune.tuner.api.loading import names as names
    from tiertune.tuner.api.loading import record as record
    from tiertune.tuner.api.loading import systems as systems
    from tiertune.tuner.api.results import Results as Results
    from tiertune.tuner.api.results import load_results as load_results
    from tiertune.tuner.api.sweeping import SweepResult as SweepResult
    from tiertune.tuner.api.sweeping import sweep as sweep
    from tiertune.tuner.api.transferring import Transfer as Transfer
    from tiertune.tuner.api.transferring import transfer as transfer
    from tiertune.tuner.backend import HostUnfit as HostUnfit
    from tiertune.tuner.journal_claim import JournalError as JournalError

__version__ = "0.1.0"

_PLACES = {
    "tiertune.adapters.base": ("AdapterError",),
    "tiertune.engine": ("EngineError", "PolicyFailed"),
    "tiertune.files": ("InputError",),
    "tiertune.policy": (
        *("Bool", "Choice", "Context", "Extent", "Fault", "Float", "Gauge", "Int", "Mechanics", "Migrated"),
        *("Needs", "Overheads", "Policy", "PolicyMistake", "Sample", "Sampler", "Topology"),
        *("register", "unregister"),
    ),
    "tiertune.tuner.api.campaigns": ("Progress", "tune"),
    "tiertune.tuner.api.comparing": ("ComparisonResult", "compare"),
    "tiertune.tuner.api.evaluation": ("Run", "run"),
    "tiertune.tuner.api.explaining": ("Explanation", "explain"),
    "tiertune.tuner.api.loading": (
        *("Profile", "knobs", "load_campaign", "load_machine", "load_profile", "load_space", "load_workload"),
        *("metrics", "names", "record", "systems"),
    ),
    "tiertune.tuner.api.results": ("Results", "load_results"),
    "tiertune.tuner.api.sweeping": ("SweepResult", "sweep"),
    "tiertune.tuner.api.transferring": ("Transfer", "transfer"),
    "tiertune.tuner.backend": ("HostUnfit",),
    "tiertune.tuner.journal_claim": ("JournalError",),
}
_FOUND_IN = {name: place for place, names in _PLACES.items() for name in names}

__all__ = sorted(_FOUND_IN)


def __getattr__(name: str) -> object:
    """Loads what is asked for. A folder of the package is a module, as ever."""
    import importlib

    if name not in _FOUND_IN:
        raise AttributeError(f"module 'tiertune' has no attribute '{name}'")
    found: object = getattr(importlib.import_module(_FOUND_IN[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_FOUND_IN})
