#!/usr/bin/python
"""Runs one trial on a host, in a scope of its own that never outlives whoever asked for it."""

from __future__ import annotations

DOCUMENTATION = """
module: tiertune_trial
short_description: Runs a command as the one trial of this host, or ends the one that runs
description:
  - One trial runs on a host at a time, held by a lock.
  - The command runs in a systemd scope where there is systemd, and otherwise below this process, to which all
    its descendants fall, also those that detach themselves. All of them are ended with the trial, which is
    when the command ends, when O(timeout_s) is over, when this process is told to end, and when the
    connection over which it was started is closed.
options:
  state:
    description: C(run) runs O(command) and waits, C(ended) ends what runs and says what it was.
    choices: [run, ended]
    default: run
    type: str
  name:
    description: What the trial is called in the lock, in its scope and in its folder.
    type: str
    default: ""
  command:
    description: Program and arguments. C(@FOLDER@) in an argument stands for the trial's folder.
    type: list
    elements: str
    default: []
  files:
    description: Files that are written to the trial's folder before, by name.
    type: dict
    default: {}
  fetch:
    description: Files of the trial's folder whose text is returned as C(fetched), empty where there is none.
    type: list
    elements: str
    default: []
  environment:
    description: Environment variables beside those that the host has.
    type: dict
    default: {}
  secrets:
    description: More of them, whose values are never shown, also where the command prints them.
    type: dict
    default: {}
  path:
    description: Folders where programs are looked for before those of the host.
    type: list
    elements: path
    default: []
  yardstick:
    description: A short command that runs before, whose output tells whether the host is what it was.
    type: list
    elements: str
    default: []
  timeout_s:
    description: Seconds after which the command is ended.
    type: float
    default: 3600
  settings:
    description: Whether kernel settings of this trial's own are in force; where not, none of another may be.
    type: bool
    default: false
  folder:
    description: The folder for trials; each has one of its own below it, replaced by the next of that name.
    type: path
    default: /var/lib/tiertune/trials
"""

import contextlib
import ctypes
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time

LOCK = "/run/tiertune/trial.lock"
SETTINGS = "/var/lib/tiertune/found-by-trial.json"
"""What the host was set to before a trial with settings of its own, until these are given back."""
MOST_OUTPUT_BYTES = 256 << 10  # what runs over stays in the folder; Ansible hands on no more than 700 kB
GRACE_S = 10.0
"""From being asked to end until being killed: tierd puts the host back meanwhile."""
KILLED_S = 120.0
"""From being killed until being gone: kernels take a terabyte back in a minute."""
YARDSTICK_S = 60.0
SUBREAPER = 36
LAUNCHER = """\
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG, which lasts over exec
if os.getppid() != int(sys.argv[1]):
    os.kill(os.getpid(), signal.SIGKILL)
try:
    os.execvp(sys.argv[2], sys.argv[2:])
except OSError as error:
    sys.exit("{}: {}".format(sys.argv[2], error.strerror))
"""
"""Between fork and exec no Python of this process may run; so a new interpreter does what belongs there."""


class CannotRun(Exception):
    """Why no trial runs here; a sentence."""


class Asked:
    """Whether somebody asked this process to end: by a signal, or by closing the connection to it."""

    def __init__(self):
        self.reason = None
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._signalled)

    def _signalled(self, number, _frame):
        self.reason = self.reason or f"asked to end by signal {number}"


def waited(process, asked, deadline):
    """Waits for a process without taking time from it; why it has to be ended, None where it ended itself."""
    watched = select.poll()
    watched.register(1, 0)  # nothing but errors: nobody reads any more what we would print
    pause_s = 0.05
    if hasattr(os, "pidfd_open"):
        watched.register(os.pidfd_open(process.pid), select.POLLIN)
        pause_s = 1.0
    while process.poll() is None:
        if asked.reason is not None:
            return asked.reason
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            return "timeout"
        if any(descriptor == 1 for descriptor, _ in watched.poll(1000 * min(left_s, pause_s))):
            return "the controller went away"
    return None


def start_ticks(pid):
    """When a process started, so that a number that was given out again is not taken for it."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[19]
    except OSError:
        return None


def descendants(pid):
    """Every process below this one, the deepest last."""
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{entry}/stat") as file:
                parents.setdefault(int(file.read().rpartition(")")[2].split()[1]), []).append(int(entry))
    found, unseen = [], [pid]
    while unseen:
        below = parents.get(unseen.pop(), [])
        found += below
        unseen += below
    return found


def reap():
    """Takes note of children that ended, which after a double fork are anybody's."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def end_all(pid):
    """Ends everything below a process: asks, waits, kills. True where nothing is left."""
    for number, patience_s in ((signal.SIGTERM, GRACE_S), (signal.SIGKILL, KILLED_S)):
        deadline = time.monotonic() + patience_s
        # Whoever dies may leave children that had escaped the first look.
        while True:
            if pid == os.getpid():
                reap()
            below = descendants(pid)
            if not below:
                return True
            for one in below:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(one, number)
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)
    return False


def held_lock(name):
    """The lock of the host's one trial, with the name of who has it; kept open while the trial runs."""
    os.makedirs(os.path.dirname(LOCK), mode=0o755, exist_ok=True)
    descriptor = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        owner = os.read(descriptor, 4096).decode() or "{}"
        raise CannotRun("trial {} runs here already".format(json.loads(owner).get("name", "?"))) from None
    os.ftruncate(descriptor, 0)
    owner = {"name": name, "process": os.getpid(), "started": start_ticks(os.getpid())}
    os.write(descriptor, json.dumps(owner).encode())
    return descriptor


def prepared(folder, files):
    """The trial's folder, empty but for its files."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder, mode=0o700)
    for name, text in files.items():
        with open(os.path.join(folder, os.path.basename(name)), "w") as file:
            file.write(text if isinstance(text, str) else json.dumps(text))


def scoped(command, name):
    """The command in a systemd scope of its own, where there is systemd."""
    if not os.path.isdir("/run/systemd/system"):
        return command
    return ["systemd-run", "--scope", "--quiet", "--collect", "--unit", unit_of(name), "--", *command]


def dying_with(pid, command):
    """The command, killed as soon as process `pid`, its parent, is gone."""
    return [sys.executable, "-I", "-S", "-c", LAUNCHER, str(pid), *command]


def unit_of(name):
    """A name that systemd takes."""
    return "tiertune-trial-" + "".join(c if c.isalnum() else "-" for c in name)


def environment_of(given):
    """The environment of the command."""
    told = dict(given["environment"], **given["secrets"])
    path = os.pathsep.join([*given["path"], os.environ.get("PATH", os.defpath)])
    return dict(os.environ, PATH=path, **{key: str(value) for key, value in told.items()})


def yardstick_of(command, environment):
    """What the yardstick prints; nothing where it cannot be run, since the trial can all the same."""
    if not command:
        return ""
    try:
        ran = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, timeout=YARDSTICK_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return ran.stdout.decode(errors="replace")[-MOST_OUTPUT_BYTES:]


def tail(path, most=MOST_OUTPUT_BYTES):
    """The end of a file, empty where it is not there."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - most))
            return file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""


def run(given):
    """One trial, from its files to its results."""
    folder = os.path.join(given["folder"], os.path.basename(given["name"]))
    lock = held_lock(given["name"])
    if not given["settings"] and os.path.exists(SETTINGS):
        raise CannotRun(
            f"{SETTINGS}: settings of a trial that was cut off are still in force; playbooks/cancel.yml gives"
            " them back"
        )
    asked = Asked()
    ctypes.CDLL(None, use_errno=True).prctl(SUBREAPER, 1, 0, 0, 0)
    prepared(folder, given["files"])
    command = [word.replace("@FOLDER@", folder) for word in given["command"]]
    environment = environment_of(given)
    program = os.path.join(folder, command[0]) if os.sep in command[0] else command[0]
    if shutil.which(program, path=environment["PATH"]) is None:
        raise CannotRun(f"{command[0]}: is not there, or is no program that may be run")
    yardstick = yardstick_of(given["yardstick"], environment)
    began = time.monotonic()
    with open(folder + "/stdout", "wb") as out, open(folder + "/stderr", "wb") as err:
        try:
            process = subprocess.Popen(
                dying_with(os.getpid(), scoped(command, given["name"])),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=folder,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            raise CannotRun(f"{command[0]}: {error.strerror}") from error
    ended = waited(process, asked, began + given["timeout_s"])
    wall_s = time.monotonic() - began
    if ended is not None:
        end_all(os.getpid())
    code = process.poll()
    left = not end_all(os.getpid())
    if ended is not None:
        with open(folder + "/ended", "w") as file:
            file.write(ended + "\n")
    os.close(lock)
    return {
        "changed": True,
        "returncode": code,
        "ended": ended or "finished",
        "left_running": left,
        "wall_s": wall_s,
        "yardstick": yardstick,
        "output": tail(folder + "/stdout"),
        "errors": tail(folder + "/stderr", 1 << 16),
        "fetched": {name: tail(os.path.join(folder, os.path.basename(name))) for name in given["fetch"]},
    }


def end():
    """Ends the trial that runs here, if one does."""
    try:
        with open(LOCK) as file:
            text = file.read()
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return {"changed": False, "ended": ""}
            except OSError:
                owner = json.loads(text)
    except FileNotFoundError:
        return {"changed": False, "ended": ""}
    pid = owner["process"]
    if start_ticks(pid) != owner["started"]:
        raise CannotRun(f"{LOCK} is held by another process than the one that it names")
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + GRACE_S + KILLED_S + GRACE_S
    while start_ticks(pid) == owner["started"]:
        if time.monotonic() > deadline:
            end_all(pid)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            break
        time.sleep(0.05)
    return {"changed": True, "ended": owner["name"]}


def main():
    """What Ansible runs."""
    from ansible.module_utils.basic import AnsibleModule

    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["run", "ended"], "default": "run"},
            "name": {"type": "str", "default": ""},
            "command": {"type": "list", "elements": "str", "default": []},
            "files": {"type": "dict", "default": {}},
            "fetch": {"type": "list", "elements": "str", "default": []},
            "environment": {"type": "dict", "default": {}},
            "secrets": {"type": "dict", "default": {}, "no_log": True},
            "path": {"type": "list", "elements": "path", "default": []},
            "yardstick": {"type": "list", "elements": "str", "default": []},
            "timeout_s": {"type": "float", "default": 3600.0},
            "settings": {"type": "bool", "default": False},
            "folder": {"type": "path", "default": "/var/lib/tiertune/trials"},
        },
        required_if=[("state", "run", ("name", "command"))],
        supports_check_mode=True,
    )
    given = module.params
    if module.check_mode:
        module.exit_json(changed=given["state"] == "run")
    try:
        module.exit_json(**(run(given) if given["state"] == "run" else end()))
    except (CannotRun, OSError) as error:
        module.fail_json(msg=str(error))


if __name__ == "__main__":
    main()
