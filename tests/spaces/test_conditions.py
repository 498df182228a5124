"""Conditions of knobs: what they take, how they are worded, and that ConfigSpace draws what they say."""

from __future__ import annotations

from pathlib import Path

import pytest
from ConfigSpace import ConfigurationSpace, EqualsCondition, Float

from tiertune.condition import Condition, Value, is_not, is_one_of, is_over
from tiertune.files import InputError
from tiertune.spaces.conditions import condition_of, holds, reach
from tiertune.spaces.configspace import config_of, hyperparameters, to_configspace, values_of
from tiertune.spaces.definition import Axis, load_space

DRAWS = 200

WORDS = Axis("mode", "choice", 0, 0, False, ("off", "pass", "update"), "off", None)
SWITCH = Axis("mode", "bool", 0, 0, False, (False, True), False, None)
WHOLE = Axis("mode", "int", 0, 10, False, (), 3, None)
REAL = Axis("mode", "float", 0.0, 1.0, False, (), 0.5, None)
OR_OFF = Axis("mode", "int", 5, 200, True, (), 30, None, None, (0,), 0.5)


def equal(value: Value) -> Condition:
    return Condition("mode", "is", (value,))


@pytest.mark.parametrize(
    ("condition", "taken", "refused", "said"),
    [
        (equal("pass"), ["pass"], ["off", None], "is 'pass'"),
        (equal(True), [True], [False, None], "is true"),
        (is_not("mode", "off"), ["pass", "update"], ["off", None], "is not 'off'"),
        (is_one_of("mode", "a", "b"), ["a", "b"], ["c", None], "is 'a' or 'b'"),
        (is_one_of("mode", 1, 2, 3), [1, 2.0, 3], [4, None], "is 1, 2 or 3"),
        (is_over("mode", 0), [1, 0.5], [0, -1, "a", None], "is over 0"),
    ],
)
def test_what_a_condition_takes_and_how_it_is_said(
    condition: Condition, taken: list[Value], refused: list[Value | None], said: str
) -> None:
    assert all(condition.takes(value) for value in taken)
    assert not any(condition.takes(value) for value in refused)
    assert condition.said() == said
    assert condition.takes(condition.example("c", [4, 0.25, *taken]))


@pytest.mark.parametrize(
    ("axis", "condition"),
    [
        (WORDS, equal("pass")),
        (WORDS, is_not("mode", "off")),
        (WORDS, is_one_of("mode", "off", "update")),
        (SWITCH, equal(False)),
        (SWITCH, is_not("mode", False)),
        (WHOLE, equal(3)),
        (WHOLE, is_not("mode", 3)),
        (WHOLE, is_not("mode", 0)),
        (WHOLE, is_over("mode", 0)),
        (WHOLE, is_over("mode", 7)),
        (REAL, is_over("mode", 0.5)),
        (OR_OFF, is_over("mode", 0)),
        (OR_OFF, is_over("mode", 50)),
        (OR_OFF, equal(0)),
        (OR_OFF, is_not("mode", 0)),
        (OR_OFF, is_not("mode", 5)),
        (OR_OFF, is_one_of("mode", 0, 5)),
    ],
    ids=lambda part: f"{part.type} {part.specials}" if isinstance(part, Axis) else part.said(),
)
def test_a_drawn_knob_is_there_exactly_when_its_condition_holds(axis: Axis, condition: Condition) -> None:
    space = drawn_from(axis)
    assert reach(condition, axis) == (True, False)
    made = condition_of(condition, axis, "batch", space)
    space.add(made)
    seen = set()
    for configuration in space.sample_configuration(DRAWS):
        values = dict(configuration)
        special = values.get("mode:special", "in range")
        value = values["mode"] if special == "in range" else int(special)
        assert ("batch" in values) is condition.takes(axis.plain(value))
        assert holds(made, values) is condition.takes(axis.plain(value))
        seen.add("batch" in values)
    assert seen == {False, True}


@pytest.mark.parametrize(
    ("axis", "condition", "always"),
    [
        (WORDS, is_one_of("mode", "off", "pass", "update"), True),
        (OR_OFF, is_over("mode", -1), True),
        (REAL, is_over("mode", -0.5), True),
        (WORDS, equal("elsewhere"), False),
        (REAL, is_over("mode", 1), False),
    ],
)
def test_a_condition_that_always_holds_is_none(axis: Axis, condition: Condition, always: bool) -> None:
    assert reach(condition, axis) == (always, always)
    if always:
        assert condition_of(condition, axis, "batch", drawn_from(axis)) is None


def test_a_knob_that_does_nothing_while_another_is_off_is_not_searched_then() -> None:
    space = load_space("pact")
    made = to_configspace(space, 1)
    seen = set()
    for configuration in made.sample_configuration(DRAWS):
        config = config_of(space, configuration)
        assert ("cooling_alpha" in config) is (config["cooling_mode"] != "off")
        assert ("cooling_interval_ms" in config) is (config["cooling_mode"] == "pass")
        seen.add(config["cooling_mode"])
    assert seen == {"off", "pass", "update"}
    assert "cooling_alpha" not in space.start()
    assert "cooling_alpha" in space.start({"cooling_mode": "update"})


def test_a_config_of_a_version_with_fewer_conditions_is_still_one() -> None:
    space = load_space("pact")
    made = to_configspace(space, 1)
    config = {**space.start(), "cooling_alpha": 0.25}
    values = values_of(made, config)
    assert config_of(space, values) == space.start()


def test_a_knob_that_can_never_act_is_a_mistake(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    knobs = "{cooling_mode: {choices: ['off', pass]}, cooling_interval_ms: {}, cooling_alpha: {}}"
    path.write_text(f"name: mine\ndescription: d\nsystem: pact\nknobs: {knobs}\n")
    load_space(str(path))
    path.write_text(path.read_text().replace("'off', pass", "'off', update"))
    with pytest.raises(InputError) as caught:
        load_space(str(path))
    (sentence,) = caught.value.sentences
    assert sentence.endswith(
        "knobs.cooling_interval_ms only acts while cooling_mode is 'pass', which is not searched here;"
        " search that as well or leave cooling_interval_ms out"
    )


def drawn_from(axis: Axis) -> ConfigurationSpace:
    """A space of the knob `mode`, as on `axis`, and of `batch`."""
    space = ConfigurationSpace(seed=1)
    space.add([*hyperparameters(axis), Float("batch", (0.0, 1.0))])
    if axis.specials:
        space.add(EqualsCondition(space["mode"], space["mode:special"], "in range"))
    return space
