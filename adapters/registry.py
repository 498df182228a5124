"""Which adapter knows which system. A new system is one line here."""

from __future__ import annotations

from tiertune import engine
from tiertune.adapters.base import Adapter, AdapterError
from tiertune.adapters.baseline import BaselineAdapter
from tiertune.adapters.hemem import HememAdapter
from tiertune.adapters.hmsdk import HmsdkAdapter
from tiertune.adapters.kernel import KernelAdapter
from tiertune.adapters.layered import LayeredAdapter
from tiertune.adapters.memtis import MemtisAdapter
from tiertune.adapters.pact import PactAdapter
from tiertune.adapters.soar import SoarAdapter

ADAPTERS: dict[str, type[Adapter]] = {
    "hemem": HememAdapter,
    "hmsdk": HmsdkAdapter,
    "memtis": MemtisAdapter,
    "flexmem": MemtisAdapter,
    "tpp": KernelAdapter,
    "nbt": KernelAdapter,
    "autonuma": KernelAdapter,
    "pact": PactAdapter,
    "soar": SoarAdapter,
    "arms": BaselineAdapter,
    "nomad": KernelAdapter,
    "mru": BaselineAdapter,
    "random": BaselineAdapter,
    "interleave": BaselineAdapter,
    "static": BaselineAdapter,
    "oracle": BaselineAdapter,
    "notier": BaselineAdapter,
    "all-fast": BaselineAdapter,
    "all-slow": BaselineAdapter,
}


def adapter_for(system: str) -> Adapter:
    """The adapter of engine system `system`; raises `EngineError` for an unknown system.

    A composition needs no entry: the adapter of its host is wrapped.
    """
    name = engine.system(system).name
    if "+" in name:
        return LayeredAdapter(name, adapter_for(name.rpartition("+")[2]))
    if name in engine.registered():
        return BaselineAdapter(name)
    if name not in ADAPTERS:
        raise AdapterError(f"system '{name}' has no adapter yet; add it to adapters/registry.py")
    return ADAPTERS[name](name)
