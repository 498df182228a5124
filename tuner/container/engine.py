"""A Docker Engine through its SDK: images and runs, and its errors in sentences."""

from __future__ import annotations

import contextlib
import io
import tarfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tiertune.files import InputError
from tiertune.tuner.backend import HostUnfit
from tiertune.tuner.container.confinement import FOLDER
from tiertune.tuner.container.image import OwnImage, is_pinned, tar_of
from tiertune.tuner.container.owner import LABEL, lives, owner
from tiertune.tuner.live.scope import GRACE_S, Ended
from tiertune.tuner.live.secret import Secrets

ANSWER_S = 60
LOCAL = "unix:///var/run/docker.sock"


@dataclass(frozen=True)
class Order:
    """A container to be run once: its command, files of its folder before, those wanted after, options of the
    SDK's `containers.create`, and variables that are secret."""

    image: str
    command: Sequence[str]
    files: Mapping[str, bytes]
    fetch: Sequence[str]
    options: Mapping[str, Any] = field(default_factory=dict)
    secrets: Secrets = field(default_factory=Secrets)


@dataclass(frozen=True)
class Ran:
    """How a container ended, what it left in its folder, and whether the kernel ended it for its memory."""

    ended: Ended
    fetched: dict[str, str]
    oom_killed: bool


class Engine(Protocol):
    """What a backend asks of an engine. Every method raises HostUnfit with a sentence."""

    def facts(self) -> dict[str, str]:
        """Its version and how it keeps what it keeps."""

    def own(self, image: OwnImage) -> str:
        """Loads our image if it is not there; its id."""

    def given(self, name: str) -> str:
        """The id of an image that is there. Raises InputError where the name is not pinned."""

    def run(self, order: Order, timeout_s: float) -> Ran:
        """Runs a container to its end, or ends it; nothing of it is left."""

    def sweep(self) -> int:
        """Removes containers of processes that are gone; how many."""

    def stop(self) -> None:
        """Ends what this process runs there, and what it is about to run. For any thread; raises nothing."""


class DockerEngine:
    """The engine of this machine that DOCKER_HOST names, or the usual one."""

    def __init__(self, address: str | None = None) -> None:
        import os

        self.address = address or os.environ.get("DOCKER_HOST") or LOCAL
        if not self.address.startswith("unix://"):
            raise InputError(
                f"DOCKER_HOST {self.address}: trials need an engine of this machine, whose state is stored"
                " with them; use a unix:// socket, or run tiertune where the engine is"
            )
        self._owner = owner()
        self._made: Any = None
        self._stopped = threading.Event()

    @property
    def _client(self) -> Any:
        if self._made is None:
            import docker

            with self._said():
                self._made = docker.DockerClient(base_url=self.address, version="auto", timeout=ANSWER_S)
        return self._made

    def facts(self) -> dict[str, str]:
        with self._said():
            told = self._client.info()
        names = {"engine": "ServerVersion", "storage": "Driver", "cgroups": "CgroupVersion"}
        return {name: str(told[key]) for name, key in names.items() if told.get(key)}

    def own(self, image: OwnImage) -> str:
        import docker

        with self._said():
            try:
                found = self._client.images.get(image.tag)
            except docker.errors.ImageNotFound:
                found = self._client.images.load(image.archive)[0]
        if found.attrs["RootFS"]["Layers"] != [image.layer]:
            raise HostUnfit(
                f"{image.tag} is another image than the one that is made of these programs;"
                f" docker image rm {image.tag}"
            )
        return str(found.id)

    def given(self, name: str) -> str:
        import docker

        with self._said():
            try:
                found = self._client.images.get(name)
            except docker.errors.ImageNotFound:
                found = None
        if not is_pinned(name):
            what = "has no digest, so that another day it may be another program"
            if found is None:
                raise InputError(
                    f"image {name} {what}, and is not here; docker pull {name} prints its digest"
                )
            digests = found.attrs.get("RepoDigests") or [found.id]
            raise InputError(f"image {name} {what}; write image: {digests[0]}")
        if found is None:
            raise HostUnfit(f"image {name} is not here; docker pull {name}")
        return str(found.id)

    def run(self, order: Order, timeout_s: float) -> Ran:
        container = None
        try:
            with self._said():
                container = self._create(order)
                container.put_archive(FOLDER, tar_of(order.files))
                # One that was not there yet when `stop` looked for it finds out here.
                if self._stopped.is_set():
                    raise HostUnfit("stopped before the container began")
                began = time.perf_counter()
                container.start()
                timed_out = not self._over(container, timeout_s)
                wall_s = time.perf_counter() - began
                if timed_out:
                    container.stop(timeout=round(GRACE_S))
                container.reload()
                state = container.attrs["State"]
                texts = [container.logs(stdout=first, stderr=not first) for first in (True, False)]
                output, errors = (text.decode("utf-8", "replace") for text in texts)
                ended = Ended(int(state["ExitCode"]), timed_out, output, errors, wall_s)
                fetched = {name: _fetched(container, name) for name in order.fetch}
                return Ran(ended, fetched, bool(state["OOMKilled"]))
        finally:
            if container is not None:
                self._remove(container)

    def sweep(self) -> int:
        with self._said():
            # One that is being removed by somebody else is no loss.
            found = self._client.containers.list(all=True, filters={"label": LABEL}, ignore_removed=True)
        left = [c for c in found if c.labels[LABEL] == self._owner or not lives(c.labels[LABEL])]
        for container in left:
            self._remove(container)
        return len(left)

    def stop(self) -> None:
        self._stopped.set()
        if self._made is None:
            return
        with contextlib.suppress(Exception):
            # Also those that were made and have not begun when Ctrl-C came.
            own = {"label": f"{LABEL}={self._owner}"}
            for container in self._made.containers.list(all=True, filters=own, ignore_removed=True):
                self._remove(container)

    def _create(self, order: Order) -> Any:
        from docker.types import LogConfig, Mount

        return self._client.containers.create(
            order.image,
            list(order.command[1:]),
            entrypoint=[order.command[0]],
            labels={LABEL: self._owner},
            # Of a volume without a name nothing stays when the container is removed.
            mounts=[Mount(FOLDER, None, type="volume")],
            log_config=LogConfig(type="json-file", config={"max-size": "64m", "max-file": "1"}),
            environment=dict(order.secrets.variables),
            **order.options,
        )

    def _over(self, container: Any, within_s: float) -> bool:
        """Waits; False where it still runs after that time."""
        import requests

        began = time.monotonic()
        try:
            container.wait(timeout=within_s)
        except (requests.exceptions.ReadTimeout, requests.exceptions.ConnectionError):
            # One of them is a long run, the other a lost engine, and the SDK does not always tell which.
            self._client.ping()
            if time.monotonic() - began < within_s:
                raise
            return False
        return True

    def _remove(self, container: Any) -> None:
        # What an engine that is gone keeps is swept when it is back.
        with contextlib.suppress(Exception):
            container.remove(v=True, force=True)

    @contextlib.contextmanager
    def _said(self) -> Iterator[None]:
        """What the SDK raises becomes a sentence."""
        import docker
        import requests

        try:
            yield
        except docker.errors.ImageNotFound as error:
            raise HostUnfit(f"the image is gone from the engine ({error.explanation})") from error
        except docker.errors.APIError as error:
            raise HostUnfit(refusal(str(error.explanation or error))) from error
        except (docker.errors.DockerException, requests.exceptions.RequestException) as error:
            raise HostUnfit(
                f"no Docker Engine answers at {self.address}; start it (systemctl start docker), or say where"
                " it is with DOCKER_HOST"
            ) from error


FULL = "no space left on device"


def refusal(said: str) -> str:
    """What an engine's refusal means, and what to do about it."""
    if FULL in said.lower():
        return (
            f"the disk of the Docker Engine's data is full ({said.strip()});"
            " docker system prune, or give it a larger data-root"
        )
    return f"the Docker Engine refuses the container: {said.strip()}"


def _fetched(container: Any, name: str) -> str:
    """A file of the container's folder; empty where there is none."""
    import docker

    try:
        pieces, _ = container.get_archive(f"{FOLDER}/{name}")
    except docker.errors.NotFound:
        return ""
    with tarfile.open(fileobj=io.BytesIO(b"".join(pieces))) as made:
        file = made.extractfile(made.next() or name)
        return "" if file is None else file.read().decode("utf-8", "replace")
