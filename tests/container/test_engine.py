"""Images, owners, and what an engine's errors are said as; no engine runs."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.container.playing import program
from tiertune.files import InputError
from tiertune.tuner.backend import HostUnfit
from tiertune.tuner.container.confinement import filter_of_calls, numbers_of
from tiertune.tuner.container.engine import DockerEngine, Order, refusal
from tiertune.tuner.container.image import is_pinned, own_image
from tiertune.tuner.container.owner import boot_id, lives, owner
from tiertune.tuner.live.secret import Secrets


def test_equal_programs_give_equal_images_of_nothing_else(tmp_path: Path) -> None:
    first = {name: program(tmp_path / "a" / name) for name in ("tierd", "tierload")}
    later = {name: program(tmp_path / "b" / name) for name in ("tierload", "tierd")}
    os.utime(later["tierd"], (1e9, 1e9))
    assert own_image(first) == own_image(later)
    with tarfile.open(fileobj=io.BytesIO(own_image(first).archive)) as image:
        manifest = json.load(image.extractfile("manifest.json") or io.BytesIO())
        layer = image.extractfile(manifest[0]["Layers"][0])
        assert layer is not None
        with tarfile.open(fileobj=layer) as files:
            assert files.getnames() == ["bin", "tmp", "bin/tierd", "bin/tierload"]
            assert {(entry.mtime, entry.uid, entry.mode) for entry in files} == {(0, 0, 0o755)}


def test_a_program_that_needs_libraries_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(HostUnfit, match=r"needs shared libraries.*`make tierd`"):
        own_image({"tierd": program(tmp_path / "tierd", interpreter=True)})
    (tmp_path / "script").write_text("#!/bin/sh\n")
    with pytest.raises(HostUnfit, match="is no program"):
        own_image({"tierload": tmp_path / "script"})


@pytest.mark.parametrize(
    ("name", "pinned"),
    [
        (f"redis@sha256:{'a' * 64}", True),
        (f"sha256:{'0' * 64}", True),
        ("redis:7", False),
        ("redis", False),
        (f"redis@sha256:{'a' * 63}", False),
        ("a" * 64, False),
    ],
)
def test_a_digest_pins_an_image(name: str, pinned: bool) -> None:
    assert is_pinned(name) is pinned


class _Images:
    """What the SDK has of images, by name."""

    def __init__(self, **known: Any) -> None:
        self.known = known

    def get(self, name: str) -> Any:
        import docker

        if name not in self.known:
            raise docker.errors.ImageNotFound("No such image")
        return self.known[name]


def test_a_tag_is_refused_with_the_digest_to_write() -> None:
    engine = DockerEngine("unix:///nowhere")
    digest = f"redis@sha256:{'a' * 64}"
    image = type("Image", (), {"id": f"sha256:{'b' * 64}", "attrs": {"RepoDigests": [digest]}})
    built = type("Image", (), {"id": f"sha256:{'c' * 64}", "attrs": {"RepoDigests": []}})
    engine._made = type("Client", (), {"images": _Images(**{"redis": image, digest: image, "mine": built})})
    assert engine.given(digest) == image.id  # type: ignore[attr-defined]
    with pytest.raises(InputError, match=f"write image: {digest}"):
        engine.given("redis")
    with pytest.raises(InputError, match=f"write image: sha256:{'c' * 64}"):
        engine.given("mine")
    with pytest.raises(InputError, match="docker pull other"):
        engine.given("other")
    with pytest.raises(HostUnfit, match=f"docker pull other@sha256:{'d' * 64}"):
        engine.given(f"other@sha256:{'d' * 64}")


def test_an_engine_that_is_not_there_is_said_with_its_address() -> None:
    with pytest.raises(HostUnfit, match=r"no Docker Engine answers at unix:///nowhere; start it"):
        DockerEngine("unix:///nowhere").facts()


class _Container:
    """A container as the SDK has it; `filled` is called once its files are there."""

    def __init__(self, filled: Callable[[], None]) -> None:
        self.filled, self.did = filled, list[str]()

    def put_archive(self, path: str, content: bytes) -> None:
        del path, content
        self.filled()

    def start(self) -> None:
        self.did.append("start")

    def remove(self, **options: bool) -> None:
        self.did.append("remove")


def test_a_container_that_is_made_while_all_are_ended_never_begins() -> None:
    engine = DockerEngine("unix:///nowhere")
    made = _Container(engine.stop)
    listed = {"create": lambda *_, **options: made, "list": lambda **asked: []}
    engine._made = type("Client", (), {"containers": type("Containers", (), {})()})
    vars(engine._made.containers).update(listed)
    with pytest.raises(HostUnfit, match="stopped before the container began"):
        engine.run(Order("image", ["true"], {}, []), 1.0)
    assert made.did == ["remove"]


def test_an_engine_of_another_machine_is_refused() -> None:
    with pytest.raises(InputError, match=r"tcp://10\.0\.0\.1:2376: trials need an engine of this machine"):
        DockerEngine("tcp://10.0.0.1:2376")


def test_a_full_disk_is_told_from_other_refusals() -> None:
    said = "write /var/lib/docker/x: no space left on device"
    assert refusal(said).startswith("the disk of the Docker Engine's data is full")
    assert refusal("cpuset.mems: invalid").endswith("refuses the container: cpuset.mems: invalid")


def test_an_owner_lives_as_long_as_its_process() -> None:
    assert lives(owner())
    boot, namespace, pid, started = owner().split("/")
    assert boot == boot_id()
    assert not lives(f"{boot}/{namespace}/{pid}/{int(started) + 1}")
    assert not lives(f"another/{namespace}/{pid}/{started}")
    assert not lives("nonsense")
    # A tiertune in a container of its own counts processes from 1, and this one cannot see whether it runs.
    assert lives(f"{boot}/{int(namespace) + 1}/7/{started}")
    say = "from tiertune.tuner.container.owner import owner; print(owner())"
    paths = os.pathsep.join(path for path in sys.path if path)
    gone = subprocess.run(
        [sys.executable, "-c", say], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": paths}
    )
    assert gone.stdout.startswith(boot), gone.stderr
    assert not lives(gone.stdout.strip())


def test_the_filter_lets_tierd_do_its_trade_and_refuses_ways_out() -> None:
    profile = filter_of_calls()
    refused = {name for rule in profile["syscalls"] for name in rule["names"] if "args" not in rule}
    assert profile["defaultAction"] == "SCMP_ACT_ALLOW"
    assert refused >= {"mount", "setns", "unshare", "bpf", "init_module", "kexec_load", "clone3"}
    needed = {"move_pages", "userfaultfd", "perf_event_open", "set_mempolicy", "ptrace", "process_vm_readv"}
    assert not refused & needed


def test_lists_of_numbers() -> None:
    assert numbers_of("0-2,5") == [0, 1, 2, 5]
    assert numbers_of("") == []


def test_secrets_are_variables_of_a_container_and_no_arguments() -> None:
    asked: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    class Containers:
        def create(self, *words: Any, **options: Any) -> None:
            asked.append((words, options))

    engine = DockerEngine("unix:///nowhere")
    engine._made = type("Client", (), {"containers": Containers()})
    secrets = Secrets({"DB_PASSWORD": "open-sesame-0451"})
    engine._create(Order("image", ["tierd", "--", "program"], {}, [], {"init": True}, secrets))
    ((words, options),) = asked
    assert options.pop("environment") == {"DB_PASSWORD": "open-sesame-0451"}
    assert "open-sesame" not in f"{words} {options}"
