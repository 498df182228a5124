"""Every engine system has an adapter, and every adapter keeps the contract."""

from __future__ import annotations

from tests.contracts.adapter import AdapterContract
from tiertune import engine
from tiertune.adapters.registry import ADAPTERS


class TestHemem(AdapterContract):
    system = "hemem"


class TestMemtis(AdapterContract):
    system = "memtis"


class TestTpp(AdapterContract):
    system = "tpp"


class TestNbt(AdapterContract):
    system = "nbt"


class TestAutonuma(AdapterContract):
    system = "autonuma"


class TestPact(AdapterContract):
    system = "pact"


class TestHmsdk(AdapterContract):
    system = "hmsdk"


class TestSoar(AdapterContract):
    system = "soar"


class TestArms(AdapterContract):
    system = "arms"


class TestFlexmem(AdapterContract):
    system = "flexmem"


class TestNomad(AdapterContract):
    system = "nomad"


class TestMru(AdapterContract):
    system = "mru"


class TestRandom(AdapterContract):
    system = "random"


class TestInterleave(AdapterContract):
    system = "interleave"


class TestStatic(AdapterContract):
    system = "static"


class TestOracle(AdapterContract):
    system = "oracle"


class TestNotier(AdapterContract):
    system = "notier"


class TestAllFast(AdapterContract):
    system = "all-fast"


class TestAllSlow(AdapterContract):
    system = "all-slow"


class TestColloidHemem(AdapterContract):
    system = "colloid+hemem"


class TestColloidMemtis(AdapterContract):
    system = "colloid+memtis"


class TestColloidTpp(AdapterContract):
    system = "colloid+tpp"


class TestColloidNbt(AdapterContract):
    system = "colloid+nbt"


class TestAltoTpp(AdapterContract):
    system = "alto+tpp"


class TestAltoNbt(AdapterContract):
    system = "alto+nbt"


class TestAltoNomad(AdapterContract):
    system = "alto+nomad"


class TestAltoColloidTpp(AdapterContract):
    system = "alto+colloid+tpp"


class TestAltoColloidNbt(AdapterContract):
    system = "alto+colloid+nbt"


def test_every_system_has_an_adapter_and_every_adapter_a_contract_test() -> None:
    systems = {system.name for system in engine.systems()}
    assert set(ADAPTERS) == {system for system in systems if "+" not in system}
    assert {suite.system for suite in AdapterContract.__subclasses__()} == systems
