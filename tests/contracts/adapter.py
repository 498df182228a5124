"""What every adapter promises. Inherit `AdapterContract` and name the system."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tiertune import engine
from tiertune.adapters.base import Adapter, AdapterError, Config
from tiertune.adapters.registry import adapter_for

RELATIVE_TOLERANCE = 1e-3
"""Native units are whole numbers (microseconds, bytes): what rounding to them may change."""


def values(knob: engine.KnobInfo) -> st.SearchStrategy[Any]:
    """Every value that `knob` declares as valid."""
    if knob.type == "bool":
        return st.booleans()
    if knob.type == "choice":
        return st.sampled_from(knob.choices)
    assert knob.min is not None
    assert knob.max is not None
    special = [st.just(value) for value, _ in knob.special]
    if knob.type == "int":
        return st.one_of(st.integers(int(knob.min), int(knob.max)), *special)
    return st.one_of(st.floats(knob.min, knob.max), *special)


def configs(system: str) -> st.SearchStrategy[Config]:
    """Configs of `system` that set any subset of its knobs."""
    knobs = engine.system(system).knobs
    return st.fixed_dictionaries({}, optional={knob.name: values(knob) for knob in knobs})


class AdapterContract:
    """Inherited by one test class a system, which sets `system`."""

    system: str

    @pytest.fixture
    def adapter(self) -> Adapter:
        return adapter_for(self.system)

    def draw(self) -> st.SearchStrategy[Config]:
        return configs(self.system)

    @settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.differing_executors])
    @given(data=st.data())
    def test_native_names_and_back(self, data: st.DataObject) -> None:
        adapter = adapter_for(self.system)
        resolved = adapter.resolve(data.draw(self.draw()))
        native = adapter.to_native(resolved)
        restored = adapter.from_native(native)
        assert restored.keys() == resolved.keys()
        for knob, value in resolved.items():
            if isinstance(value, float):
                assert restored[knob] == pytest.approx(value, rel=RELATIVE_TOLERANCE), knob
            else:
                assert restored[knob] == value, knob
        assert adapter.to_native(adapter.resolve(restored)) == native, "a second round trip changes nothing"

    @settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.differing_executors])
    @given(data=st.data())
    def test_the_block_alone_restores_the_config(self, data: st.DataObject) -> None:
        adapter = adapter_for(self.system)
        resolved = adapter.resolve(data.draw(self.draw()))
        restored = adapter.from_block(adapter.native_block(resolved))
        assert restored == adapter.from_native(adapter.to_native(resolved))

    def test_defaults_survive_the_round_trip(self, adapter: Adapter) -> None:
        restored = adapter.from_block(adapter.native_block({}))
        assert restored == {
            knob: pytest.approx(value, rel=1e-6) if isinstance(value, float) else value
            for knob, value in adapter.resolve({}).items()
        }

    def test_every_native_name_is_used_once(self, adapter: Adapter) -> None:
        named = [adapter.native_knob(knob.name) for knob in adapter.info.knobs]
        names = [native.name for native in named if native is not None]
        assert len(names) == len(set(names))
        assert set(names) <= set(adapter.to_native({}))

    def test_apply_is_idempotent_and_verified(self, adapter: Adapter) -> None:
        applied = adapter.start({})
        adapter.verify(applied)
        again = adapter.start(applied.config)
        assert again == applied
        adapter.undo(applied)
        adapter.undo(applied)

    def test_every_knob_is_in_force_after_start(self, adapter: Adapter) -> None:
        assert set(adapter.start({}).config) == {knob.name for knob in adapter.info.knobs}

    def test_unknown_knob_is_refused_in_words(self, adapter: Adapter) -> None:
        with pytest.raises(engine.EngineError, match="no_such_knob"):
            adapter.start({"no_such_knob": 1})
        with pytest.raises(AdapterError, match="no_such_knob"):
            adapter.from_native({"no_such_knob": 1})

    def test_another_systems_config_is_not_undone(self, adapter: Adapter) -> None:
        other = next(system.name for system in engine.systems() if system.name != self.system)
        with pytest.raises(AdapterError, match=other):
            adapter.undo(adapter_for(other).start({}))

    def test_verify_notices_what_is_not_in_force(self, adapter: Adapter) -> None:
        applied = adapter.start({})
        for missing in applied.config:
            fewer = {knob: value for knob, value in applied.config.items() if knob != missing}
            with pytest.raises(AdapterError, match=missing):
                adapter.verify(type(applied)(applied.system, fewer))
        adapter.verify(applied)
