"""The contract of policies, for those written in Python: the suite that holds the engine's own systems to it.

In a test of your own:

    from tiertune.testing import PolicyContract
    from greedy import Greedy

    class TestGreedy(PolicyContract):
        policy = Greedy
        golden = Path(__file__).parent  # where its *.golden scripts are
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from tiertune import engine
from tiertune.files import InputError
from tiertune.policy import Policy, PolicyMistake, register

UPDATE = "UPDATE_GOLDEN"
"""Environment variable that has golden scripts rewritten instead of compared."""


@dataclass(frozen=True)
class Kept:
    """A promise, and what is wrong; empty where it is kept."""

    promise: str
    wrong: str


def check(policy: type[Policy] | str, promises: tuple[str, ...] = ()) -> Iterator[Kept]:
    """Holds a policy (a class, or a system by name) to all promises or to those named, one after the other.

    What the policy raises is told as what is wrong with the promise.
    """
    name = policy if isinstance(policy, str) else register(policy).name
    for promise in promises or engine.promises():
        try:
            yield Kept(promise, engine.check_promise(name, promise) or "")
        except engine.PolicyFailed as failed:
            yield Kept(promise, str(failed))


def policies_of(path: str | Path) -> list[type[Policy]]:
    """The policy classes that a Python file defines; raises `InputError` where there is none.

    The file is executed, as `python FILE` would.
    """
    file = Path(path)
    if not file.is_file() or file.suffix != ".py":
        raise InputError(f"{file}: there is no such Python file")
    name = f"tiertune_policy_file_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # a file that calls exit() is not this command's end
        del sys.modules[name]
        raise InputError(f"{file}: it cannot be imported: {type(error).__name__}: {error}") from error
    found = [
        one
        for one in vars(module).values()
        if isinstance(one, type) and issubclass(one, Policy) and one.__module__ == name
    ]
    if not found:
        raise InputError(f"{file}: it defines no class derived from tiertune.Policy")
    return found


def difference(policy: type[Policy] | str, script: Path) -> str:
    """The first line of a golden script that comes out otherwise now; empty where none does.

    With `UPDATE_GOLDEN` set, the script is rewritten and nothing differs. `crates/contract/src/script.rs` of
    the engine lists the commands.
    """
    import os

    name = policy if isinstance(policy, str) else register(policy).name
    recorded = script.read_text(encoding="utf-8")
    now = engine.replay_script(name, recorded)
    if now == recorded:
        return ""
    if os.environ.get(UPDATE):
        script.write_text(now, encoding="utf-8")
        return ""
    old, new = ([*text.splitlines(), "(end)"] for text in (recorded, now))
    at = next(n for n, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1])
    return f"{script}:{at + 1}\n  recorded: {old[at]}\n  now:      {new[at]}\n{UPDATE}=1 rewrites the script"


class PolicyContract:
    """Tests for pytest: one for each promise, and one for the golden scripts. A subclass names its policy."""

    policy: ClassVar[type[Policy]]
    golden: ClassVar[Path | None] = None
    """Folder of the policy's `*.golden` scripts."""

    def _keeps(self, promise: str) -> None:
        (kept,) = check(self.policy, (promise,))
        assert not kept.wrong, kept.wrong

    def test_knobs_are_declared_completely(self) -> None:
        """Meaning, source, a default that the knob takes, a condition on a knob that there is."""
        self._keeps("knobs are declared completely")

    def test_mistakes_in_configs_are_named(self) -> None:
        """What is misspelt or out of range is named with what would do."""
        self._keeps("mistakes in configs are named")

    def test_samplers_mechanics_and_overheads_make_sense(self) -> None:
        """Periods, copy speeds and costs that a machine can work with."""
        self._keeps("samplers, mechanics and overheads make sense")

    def test_empty_calls_and_stray_wake_ups_do_no_harm(self) -> None:
        """A driver may call at any time that does not go back."""
        self._keeps("empty calls and stray wake-ups do no harm")

    def test_a_state_that_is_none_is_refused(self) -> None:
        """Bytes that are no saved state."""
        self._keeps("a state that is none is refused")

    def test_requests_are_valid_and_succeed(self) -> None:
        """No page or tier that does not exist, no move to where a page is, no books kept wrongly."""
        self._keeps("requests are valid and succeed")

    def test_equal_inputs_give_equal_decisions(self) -> None:
        """No clock, no random source, no order of a set."""
        self._keeps("equal inputs give equal decisions")

    def test_a_restored_policy_goes_on_as_the_saved_one(self) -> None:
        """A daemon that restarts goes on where it was."""
        self._keeps("a restored policy goes on as the saved one")

    def test_knobs_at_their_extremes_do_no_harm(self) -> None:
        """Every knob at each of its ends, and all of them at once."""
        self._keeps("knobs at their extremes do no harm")

    def test_a_knob_changes_nothing_while_its_condition_does_not_hold(self) -> None:
        """A search leaves such a knob out."""
        self._keeps("a knob changes nothing while its condition does not hold")

    def test_every_knob_acts_or_says_that_it_is_inert(self) -> None:
        """A knob without effect is not to be searched."""
        self._keeps("every knob acts, or says that it is inert")

    def test_golden_scripts_give_the_recorded_decisions(self) -> None:
        """Every `*.golden` script of the folder `golden`."""
        if self.golden is None:
            return
        scripts = sorted(self.golden.glob("*.golden"))
        if not scripts:
            raise PolicyMistake(f"{self.golden}: there are no *.golden scripts")
        wrong = [difference(self.policy, script) for script in scripts]
        assert not any(wrong), "\n".join(text for text in wrong if text)
