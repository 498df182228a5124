"""Hosts for tests: a network, a root, kernel files and processes of their own, and a real sshd.

They lie in namespaces behind a controller that is one, too: the machine that runs the tests gets no address
and no open port, and nothing that a host's root sets reaches its kernel.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.host.fleet.kernel_files import PROC_SYS, SYS, planted
from tests.host.fleet.sshd import unpacked_sshd

BOOT = Path(__file__).with_name("boot.sh")
NETWORK = "10.213.0"
ACCEPT = "-o StrictHostKeyChecking=accept-new"


@dataclass
class Host:
    """One host. `sys` and `proc_sys` are what it sees as /sys and /proc/sys."""

    name: str
    address: str
    folder: Path
    process: subprocess.Popen[bytes]
    link: str

    @property
    def sys(self) -> Path:
        """The host's /sys, seen from here."""
        return self.folder / "sys"

    @property
    def proc_sys(self) -> Path:
        """The host's /proc/sys, seen from here."""
        return self.folder / "proc-sys"

    def kernel_files(self) -> dict[str, str]:
        """Every kernel file of the host with its text, by path as the host sees it."""
        found = {}
        for folder, prefix in ((self.sys, "/sys"), (self.proc_sys, "/proc/sys")):
            for path in sorted(folder.rglob("*")):
                if path.is_file():
                    found[f"{prefix}/{path.relative_to(folder)}"] = path.read_text().strip()
        return found

    def run(self, *command: str) -> str:
        """What a command on the host prints, past SSH: a look from outside."""
        pid = self._first_process()
        enter = ["nsenter", "--target", str(pid), "--mount", "--pid", "--net", "--root", "--wd"]
        return subprocess.run([*enter, *command], capture_output=True, text=True, check=True).stdout

    def commands(self) -> list[str]:
        """Command lines of all processes of the host."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if (folder / "ns/pid").readlink() == self._pid_namespace:
                    found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip())
        return [command for command in found if command]

    def see(self, *folders: Path) -> None:
        """Lets the host have folders of this machine that its own file systems hide."""
        enter = ["nsenter", "--mount", "--target", str(self._first_process())]
        for folder in folders:
            within = f"{self.folder}/root{folder}"
            subprocess.run([*enter, "mkdir", "-p", within], check=True)
            subprocess.run([*enter, "mount", "--rbind", str(folder), within], check=True)

    def kill(self) -> None:
        """Power off: everything on it is gone at once."""
        if self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGKILL)
            self.process.wait(10)

    def ready(self) -> None:
        """Remembers its process namespace once it has one."""
        self._pid_namespace = Path(f"/proc/{self._first_process()}/ns/pid").readlink()

    def _first_process(self) -> int:
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(children[0])


@dataclass
class Fleet:
    """A controller's network with its hosts."""

    folder: Path
    controller: subprocess.Popen[bytes]
    hosts: list[Host] = field(default_factory=list)

    def command(self, *command: str) -> list[str]:
        """A command line that runs where the hosts can be reached."""
        return ["nsenter", f"--net=/proc/{self.controller.pid}/ns/net", *command]

    def write_inventory(self, path: Path, extra: Mapping[str, object] | None = None) -> Path:
        """An inventory with all hosts, as an operator would write one."""
        lines = ["tier_hosts:", "  hosts:"]
        lines += [f"    {host.name}: {{ansible_host: {host.address}}}" for host in self.hosts]
        variables = {
            "ansible_user": "root",
            "ansible_ssh_private_key_file": str(self.folder / "id"),
            "ansible_python_interpreter": "/usr/bin/python3",
            "ansible_ssh_common_args": f"-o UserKnownHostsFile={self.folder}/known {ACCEPT}",
            # Another fleet has hosts of the same addresses, and sockets know nothing of networks.
            "ansible_control_path": f"{self.folder}/to-%%h",
            **(extra or {}),
        }
        lines += ["  vars:", *(f"    {name}: {value}" for name, value in variables.items())]
        path.write_text("\n".join(lines) + "\n")
        return path

    def unplug(self, host: Host) -> None:
        """Its network is gone, silently; the host itself goes on."""
        self._ip("link", "set", host.link, "down")

    def plug_in(self, host: Host) -> None:
        """Its network is back."""
        self._ip("link", "set", host.link, "up")

    def add(self, name: str, tree: Path, files: Mapping[str, str] | None = None) -> Host:
        """Starts a host and waits until its sshd can be reached."""
        number = len(self.hosts) + 2
        folder = self.folder / name
        for part in ("root", "overlay", "sys", "proc-sys"):
            (folder / part).mkdir(parents=True)
        planted(folder / "sys", SYS)
        planted(folder / "proc-sys", PROC_SYS)
        shutil.copy(self.folder / "id.pub", folder / "authorized_keys")
        _keygen(folder / "host_key")
        spaces = [
            "--net",
            "--mount",
            "--uts",
            "--ipc",
            "--pid",
            "--fork",
            "--kill-child",
            "--propagation",
            "private",
        ]
        with (folder / "log").open("wb") as log:
            boot = ["unshare", *spaces, "sh", str(BOOT), name, str(folder), str(tree)]
            process = subprocess.Popen(boot, stdout=log, stderr=log, start_new_session=True)
        host = Host(name, f"{NETWORK}.{number}", folder, process, f"to{number}")
        self.hosts.append(host)
        _until(
            lambda: Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().strip(), "it forks"
        )
        host.ready()
        inside = ["nsenter", f"--net=/proc/{host._first_process()}/ns/net", "ip"]
        self._ip(
            "link",
            "add",
            host.link,
            "type",
            "veth",
            "peer",
            "name",
            "eth0",
            "netns",
            str(host._first_process()),
        )
        self._ip("link", "set", host.link, "master", "hosts", "up")
        for words in (("addr", "add", f"{host.address}/24", "dev", "eth0"), ("link", "set", "eth0", "up")):
            subprocess.run([*inside, *words], check=True)
        listening = b"Server listening"
        _until(lambda: listening in (folder / "log").read_bytes(), "its sshd listens", folder / "log")
        return host

    def close(self) -> None:
        """Ends every host and the controller's network."""
        for host in self.hosts:
            host.kill()
        self.controller.kill()
        self.controller.wait(10)

    def _ip(self, *words: str) -> None:
        subprocess.run(self.command("ip", *words), check=True)


def fleet_of(folder: Path, names: Sequence[str], cache: Path) -> Fleet:
    """A controller's network with hosts of these names; `cache` keeps what is fetched."""
    tree = unpacked_sshd(cache)
    _keygen(folder / "id")
    controller = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
    fleet = Fleet(folder, controller)
    try:
        outside = Path("/proc/self/ns/net").readlink()
        _until(
            lambda: Path(f"/proc/{controller.pid}/ns/net").readlink() != outside,
            "the controller has its network",
        )
        fleet._ip("link", "set", "lo", "up")
        fleet._ip("link", "add", "hosts", "type", "bridge")
        fleet._ip("addr", "add", f"{NETWORK}.1/24", "dev", "hosts")
        fleet._ip("link", "set", "hosts", "up")
        for name in names:
            fleet.add(name, tree)
    except BaseException:
        fleet.close()
        raise
    return fleet


def _keygen(path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)


def _until(holds: object, what: str, log: Path | None = None, seconds: float = 15.0) -> None:
    assert callable(holds)
    deadline = time.monotonic() + seconds
    while not holds():
        said = f"; its log: {log.read_text()}" if log else ""
        assert time.monotonic() < deadline, f"waited {seconds:g} s until {what}{said}"
        time.sleep(0.02)
