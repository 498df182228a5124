"""What a suite file holds: campaigns with priorities and budgets, and how their nights are watched."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, PrivateAttr

from tiertune.document import Path as Place
from tiertune.fields import Flag, Integer, Name, Number, Text
from tiertune.files import InputError, Strict, find, load
from tiertune.mistakes import sentence
from tiertune.tuner.campaign import Campaign, Tracking, load_campaign, objectives_refusal
from tiertune.tuner.nightly.schedule import Span, parse_clock

VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
"""Capitals only: a token that is pasted where its name belongs is not taken for one, and not repeated."""

LONGEST_NAME = 64 - len("--r99999")
LOOPBACK = ("localhost", "127.0.0.1", "::1")

Event = Literal["raised", "cleared", "incomplete", "night"]


def _clock(value: object) -> object:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 24 * 60:
        spelled = f"{value // 60:02d}:{value % 60:02d}"
        raise sentence(f'is read as a number; put the time in quotes: "{spelled}"')
    if isinstance(value, str) and parse_clock(value) is None:
        raise sentence('is not a time of the day; write hours and minutes, such as "22:30"')
    return value


Clock = Annotated[Text, BeforeValidator(_clock)]


class Window(Strict):
    """Hours of local time in which trials may be started."""

    begin: Clock = Field(description='time of the day from which it may run, such as "22:00"')
    end: Clock = Field(description='time of the day at which it stops, such as "06:00"')

    @property
    def span(self) -> Span:
        """The same as times."""
        begin, end = parse_clock(self.begin), parse_clock(self.end)
        assert begin is not None
        assert end is not None
        return Span(begin, end)


class SuiteEntry(Strict):
    """One campaign of the suite."""

    campaign: Text = Field(description="name or path of a campaign")
    priority: Integer = Field(default=1, ge=1, le=1000, description="1 is run first; equal ones as listed")
    trials: Annotated[Integer, Field(ge=1, le=1_000_000)] | None = Field(
        default=None, description="most trials of its search and judgement in one night; absent: no limit"
    )
    minutes: Annotated[Number, Field(ge=0.1, le=1440)] | None = Field(
        default=None, description="longest time of its search and judgement in one night; absent: no limit"
    )
    window: Window | None = Field(default=None, description="its own hours, within those of the suite")


class Panel(Strict):
    """The configurations that every night measures again: default and last accepted winner of each cell."""

    seeds: Integer = Field(
        default=10, ge=3, le=1000, description="runs of each, on the same seeds every night"
    )


class Alarms(Strict):
    """When a change is worth an alarm."""

    false_alarm_nights: Integer = Field(
        default=200,
        ge=20,
        le=100_000,
        description="nights without a change in which one false alarm is allowed",
    )
    least: Number = Field(
        default=0.01, ge=0.001, le=0.5, description="smallest share by which performance must have changed"
    )
    night_noise: Number = Field(
        default=0.005,
        ge=0.0001,
        le=0.2,
        description="share by which whole nights differ, assumed until the history knows better",
    )
    confirm_nights: Integer = Field(
        default=1, ge=1, le=5, description="nights that have to agree before an alarm is raised"
    )


class Notify(Strict):
    """Whom to tell: a command with JSON on its standard input, or an address that JSON is posted to."""

    command: Annotated[list[Text], Field(min_length=1, max_length=64)] | None = Field(
        default=None, description="program and arguments, run without a shell"
    )
    webhook: Text | None = Field(default=None, description="https address, or http on this machine")
    webhook_env: Text | None = Field(
        default=None, description="environment variable that holds the address, where it is a secret"
    )
    secret_env: Text | None = Field(
        default=None, description="environment variable with a token, sent as bearer authorisation"
    )
    events: list[Event] = Field(
        default=["raised", "cleared"],
        min_length=1,
        max_length=4,
        description="alarms raised, alarms cleared, an incomplete night, every night",
    )

    def mistakes(self) -> Iterator[tuple[Place, str]]:
        """One way each, and no secret in the file."""
        given = [key for key in ("command", "webhook", "webhook_env") if getattr(self, key) is not None]
        if len(given) != 1:
            yield (
                (given[1] if given else "command",),
                "takes exactly one of command, webhook and webhook_env in an entry",
            )
        if self.secret_env is not None and self.command is not None:
            yield ("secret_env",), "is for webhooks; a command reads its environment itself"
        for key in ("webhook_env", "secret_env"):
            value = getattr(self, key)
            if value is not None and not VARIABLE.fullmatch(value):
                yield (key,), "takes the name of an environment variable, in capitals, such as TIERTUNE_TOKEN"
        if self.webhook is not None:
            wrong = address_mistake(self.webhook)
            if wrong:
                yield ("webhook",), wrong

    @property
    def name(self) -> str:
        """What may be said of it: no more of an address than its host."""
        if self.command is not None:
            return f"command {Path(self.command[0]).name}"
        if self.webhook_env is not None:
            return f"webhook ${self.webhook_env}"
        return f"webhook {urlsplit(self.webhook or '').hostname}"


class Keep(Strict):
    """What stays on the disk; the history itself is never shortened."""

    nights: Integer = Field(
        default=30,
        ge=1,
        le=10_000,
        description="nights whose digests and logs stay; nights with alarms always do",
    )
    rounds: Integer = Field(
        default=5, ge=1, le=1000, description="rounds of each campaign whose journals and reports stay"
    )


class NightTracking(Tracking):
    """Where people look at nights; the history is kept in any case."""

    experiment: Text = Field(default="tiertune-nightly", description="MLflow experiment")


class Suite(Strict):
    """A suite: campaigns that run night by night, and the alarms over their history."""

    name: Name = Field(description="name of the suite and of its folder under results/nightly")
    description: Text = Field(default="no description", description="one line on the suite")
    campaigns: list[SuiteEntry] = Field(min_length=1, max_length=200, description="what is run")
    window: Window | None = Field(
        default=None, description="hours in which it runs; absent: from its start until it is done"
    )
    panel: Panel = Field(default=Panel(), description="what every night measures again")
    alarms: Alarms = Field(default=Alarms(), description="when a change is worth an alarm")
    notify: list[Notify] = Field(default=[], max_length=20, description="whom to tell")
    keep: Keep = Field(default=Keep(), description="what stays on the disk")
    search: Flag = Field(
        default=True, description="whether campaigns are searched; if not, nights only measure the panel"
    )
    tracking: NightTracking = Field(default=NightTracking(), description="where people look at nights")

    _folder: Path = PrivateAttr(default=Path())
    _campaigns: dict[int, Campaign] = PrivateAttr(default_factory=dict)

    def mistakes(self) -> Iterator[tuple[Place, str]]:
        """Campaigns are there once."""
        seen: dict[str, int] = {}
        for number, entry in enumerate(self.campaigns):
            first = seen.setdefault(entry.campaign, number)
            if first != number:
                text = f"is the same campaign as campaigns[{first}]; leave one of the two out"
                yield ("campaigns", number, "campaign"), text

    def ordered(self) -> list[tuple[SuiteEntry, Campaign]]:
        """Campaigns by priority, then as listed."""
        numbered = sorted(enumerate(self.campaigns), key=lambda item: (item[1].priority, item[0]))
        return [(entry, self.campaign(number)) for number, entry in numbered]

    def campaign(self, number: int) -> Campaign:
        """The campaign of an entry, read once; paths are relative to the suite's file."""
        if number not in self._campaigns:
            given = self.campaigns[number].campaign
            self._campaigns[number] = load_campaign(str(find("campaigns", given, self._folder)))
        return self._campaigns[number]


def address_mistake(address: str) -> str | None:
    """Why something may not be posted to an address, None where it may. Never repeats the address."""
    try:
        parts = urlsplit(address)
        host = parts.hostname
    except ValueError:
        return "is no address; write one such as https://alerts.example.org/tiertune"
    if parts.scheme not in ("http", "https") or not host:
        return "is no address; write one such as https://alerts.example.org/tiertune"
    if parts.scheme == "http" and host not in LOOPBACK:
        return "would be posted in the clear; the nearest valid address begins with https://"
    if parts.password is not None or parts.username is not None:
        return "holds a name or password; set secret_env, or put the whole address into webhook_env"
    return None


def load_suite(name_or_path: str) -> Suite:
    """Reads a suite by name (`./suites` first, then the packaged ones) or path, with all its campaigns.

    Raises `InputError` with a sentence per mistake, in the suite or in a file that it names.
    """
    path = find("suites", name_or_path)

    def outside(suite: Suite) -> list[tuple[Place, str]]:
        suite._folder = path.parent
        return list(_campaign_mistakes(suite))

    return load(Suite, path, outside)


def _campaign_mistakes(suite: Suite) -> Iterator[tuple[Place, str]]:
    called: dict[str, int] = {}
    for number, entry in enumerate(suite.campaigns):
        place: Place = ("campaigns", number, "campaign")
        try:
            campaign = suite.campaign(number)
        except InputError as error:
            yield place, "; ".join(error.sentences)
            continue
        if refused := objectives_refusal(campaign, "nights follow"):
            yield place, f"{entry.campaign}: {refused}"
        first = called.setdefault(campaign.name, number)
        if first != number:
            text = f"'{entry.campaign}' is called {campaign.name} like campaigns[{first}]; rename one"
            yield place, text
        if len(suite.name) + len(campaign.name) > LONGEST_NAME:
            text = f"{suite.name} and {campaign.name} together are longer than {LONGEST_NAME}; shorten one"
            yield place, text
