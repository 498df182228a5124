#!/usr/bin/python
"""Sets what a kernel offers under /sys and /proc/sys, after writing down what was there."""

from __future__ import annotations

DOCUMENTATION = """
module: tiering_settings
short_description: Sets kernel files, services, swap and MSRs, and gives back what was found
description:
  - Every setting is read first. What is found is kept in a record on the host, on disk before anything is
    changed, and never overwritten by a later run, so that C(state=restored) brings the host back to what it
    was before the first one.
  - Every setting is read back after it was written.
  - While a trial runs on the host, nothing is set and nothing is given back.
options:
  state:
    description: C(applied) sets what O(settings) lists, C(restored) brings back what the record holds.
    choices: [applied, restored]
    default: applied
    type: str
  record:
    description: The file that keeps what was found.
    type: path
    required: true
  settings:
    description:
      - What to set, in this order; it is given back in the opposite order.
      - C(path) is a kernel file or a pattern of several, C(service) a systemd unit (C(started) or
        C(stopped)), C(swap) is C(all) (C(off)), C(msr) a register of the processor C(cpu).
      - C(paths) with C(count) sets as many of these files, in this order, as the kernel has to be asked for.
      - An entry with C(optional) may be absent on a host; it is then reported and left out. One with
        C(movable) may be refused by the kernel, as interrupts of some devices are; it is reported, too.
    type: list
    elements: dict
    default: []
"""

import contextlib
import fcntl
import glob
import json
import os
import re
import struct
import subprocess

SCHEMA = 1
TRIAL_LOCK = "/run/tiertune/trial.lock"
"""Held by the module tiertune_trial while a trial runs, with the trial's name in it."""
TRUE, FALSE = ("1", "y", "true", "on"), ("0", "n", "false", "off")


class CannotSet(Exception):
    """A setting that the host does not take; the sentence names it."""


def selected(text):
    """What a kernel file is set to: the word in brackets where it lists the choices."""
    marked = re.search(r"\[([^\]]+)\]", text)
    return marked.group(1) if marked else text.strip()


def same(wanted, found):
    """Whether a value that was written is what is read: kernels answer `true` to 1, and 5 to 0x5."""
    a, b = str(wanted).strip().lower(), str(found).strip().lower()
    if a == b or (b in ("true", "false", "y", "n") and a in (TRUE if b in TRUE else FALSE)):
        return True
    with contextlib.suppress(ValueError):
        return int(a, 0) == int(b, 0)
    return False


def writable(value):
    """As kernels take it back: `true`, which they print, is not read by all of them."""
    return {"true": "1", "false": "0"}.get(str(value), str(value))


class KernelFile:
    """A file under /sys or /proc/sys."""

    def __init__(self, path):
        self.path = path
        self.name = path

    def read(self):
        """The value in force; None where there is no such file."""
        try:
            with open(self.path) as file:
                return selected(file.read())
        except FileNotFoundError:
            return None

    def write(self, value):
        """Puts a value in force."""
        with open(self.path, "w") as file:
            file.write(writable(value))


class Service:
    """A systemd unit, started or stopped."""

    def __init__(self, unit):
        self.unit = unit
        self.name = "service " + unit

    def read(self):
        """`started` or `stopped`; None where systemd does not know it or does not run."""
        if not os.path.isdir("/run/systemd/system"):
            return None
        said = _output(["systemctl", "show", "--property=LoadState,ActiveState", self.unit])
        if "LoadState=loaded" not in said:
            return None
        return "started" if "ActiveState=active" in said else "stopped"

    def write(self, value):
        """Starts or stops it."""
        _output(["systemctl", "start" if value == "started" else "stop", self.unit])


class Swap:
    """All swap areas: `off`, or the areas that are in use, one a line with its priority."""

    name = "swap"

    def read(self):
        """The areas in use, or `off`."""
        with open("/proc/swaps") as file:
            areas = [line.split() for line in file.read().splitlines()[1:]]
        return "\n".join(f"{words[0]} {words[-1]}" for words in areas) or "off"

    def write(self, value):
        """Turns all off, or the listed ones on."""
        if value == "off":
            _output(["swapoff", "--all"])
            return
        for line in value.splitlines():
            area, priority = line.rsplit(" ", 1)
            _output(["swapon", *([] if int(priority) < 0 else ["--priority", priority]), area])


class Register:
    """A model-specific register of one processor."""

    def __init__(self, number, cpu):
        self.offset, self.cpu = int(str(number), 0), cpu
        self.device = f"/dev/cpu/{cpu}/msr"
        self.name = f"msr {self.offset:#x} of cpu {cpu}"

    def read(self):
        """The value in force; None where there is no such device or register."""
        try:
            with open(self.device, "rb") as device:
                return "{:#x}".format(struct.unpack("<Q", os.pread(device.fileno(), 8, self.offset))[0])
        except (FileNotFoundError, OSError):
            return None

    def write(self, value):
        """Writes all 64 bits."""
        with open(self.device, "r+b", buffering=0) as device:
            os.pwrite(device.fileno(), struct.pack("<Q", int(str(value), 0)), self.offset)


class Group:
    """Some of several files that are to have a value, whichever the kernel lets have it."""

    def __init__(self, entry):
        self.wanted, self.count = str(entry["value"]), int(entry["count"])
        values = [(KernelFile(path), KernelFile(path).read()) for path in entry["paths"]]
        self.candidates = [(t, b) for t, b in values if b is not None and not same(self.wanted, b)]
        have = sum(before is not None for _, before in values) - len(self.candidates)
        self.missing = max(self.count - have, 0)
        if not self.missing:
            self.candidates = []
        if len(self.candidates) < self.missing:
            raise CannotSet(
                f"{self.count} files are to be {self.wanted}, and there are {have + len(self.candidates)}:"
                f" {', '.join(entry['paths'][:3])} and so on"
            )

    def expected(self):
        """What would be changed where the kernel agrees at once."""
        return [(target, before, self.wanted) for target, before in self.candidates[: self.missing]]

    def put(self):
        """Sets one after the other until there are enough; what was changed."""
        changed, problem = [], ""
        for target, before in self.candidates:
            if len(changed) == self.missing:
                break
            try:
                put(target, self.wanted)
                changed.append((target, before, self.wanted))
            except CannotSet as error:
                problem = str(error)
        if len(changed) < self.missing:
            raise CannotSet(f"only {len(changed)} of {self.missing} could be set to {self.wanted}; {problem}")
        return changed


def _output(command):
    ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if ran.returncode:
        raise OSError(ran.returncode, ran.stderr.strip() or "{} failed".format(" ".join(command)))
    return ran.stdout


def target_of(entry):
    """What an entry of the record, or an expanded one of the settings, is about."""
    if "path" in entry:
        return KernelFile(entry["path"])
    if "service" in entry:
        return Service(entry["service"])
    if "msr" in entry:
        return Register(entry["msr"], entry["cpu"])
    if "swap" in entry:
        return Swap()
    raise CannotSet(f"{json.dumps(entry)}: needs 'path', 'service', 'msr' or 'swap'")


def place_of(entry):
    """The part of an entry that says what it is about."""
    return {key: entry[key] for key in ("path", "service", "msr", "cpu", "swap") if key in entry}


def expanded(settings):
    """One entry for every file that a pattern names."""
    for entry in settings:
        if "value" not in entry:
            raise CannotSet(f"{json.dumps(entry)}: has no 'value'")
        if isinstance(entry["value"], bool):
            raise CannotSet(f"{json.dumps(entry)}: 'value' is a YAML boolean; quote it")
        if "path" in entry and glob.has_magic(entry["path"]):
            paths = sorted(glob.glob(entry["path"]))
            for path in paths:
                yield dict(entry, path=path)
            if not paths:
                yield entry
        else:
            yield entry


def read_record(path):
    """What was found before the first change, oldest first."""
    try:
        with open(path) as file:
            document = json.load(file)
    except FileNotFoundError:
        return []
    if document.get("schema") != SCHEMA:
        raise CannotSet(f"{path}: was written by another version of this role")
    return document["found"]


def write_record(path, found):
    """Keeps the record on disk before anything is changed, whole or not at all."""
    folder = os.path.dirname(path)
    os.makedirs(folder, mode=0o755, exist_ok=True)
    with open(path + ".new", "w") as file:
        json.dump({"schema": SCHEMA, "found": found}, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".new", path)
    descriptor = os.open(folder, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def refuse_during_trial():
    """Raises CannotSet while a trial runs, which would be measured under two kinds of settings."""
    try:
        with open(TRIAL_LOCK) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                owner = json.loads(file.read() or "{}")
                name = owner.get("name", "?")
                raise CannotSet(
                    f"trial {name} runs here, so that no setting is changed; playbooks/cancel.yml ends it"
                ) from None
    except FileNotFoundError:
        pass


def put(target, value):
    """Sets a value and reads it back."""
    try:
        target.write(value)
    except OSError as error:
        reason = error.strerror or str(error)
        raise CannotSet(f"{target.name}: cannot be set to {value}: {reason}") from error
    after = target.read()
    if after is None or not same(value, after):
        raise CannotSet(f"{target.name}: is {after} after it was set to {value}")


def apply(settings, record, check):
    """Puts settings in force; what is said of it."""
    found = read_record(record)
    known = [place_of(entry) for entry in found]
    changes, absent, movable, groups = [], [], set(), []

    def keep(place, value):
        if place not in known:
            known.append(place)
            found.append(dict(place, value=value))

    for entry in expanded(settings):
        if "paths" in entry:
            group = Group(entry)
            groups.append(group)
            for target, before in group.candidates:
                keep({"path": target.path}, before)
            continue
        target, wanted = target_of(entry), str(entry["value"])
        if entry.get("movable"):
            movable.add(target.name)
        before = target.read()
        if before is None:
            if not entry.get("optional"):
                raise CannotSet(f"{target.name}: this host has no such setting")
            absent.append(target.name)
        elif not same(wanted, before):
            changes.append((target, before, wanted))
            keep(place_of(entry), before)
    if check:
        return changes + [change for group in groups for change in group.expected()], absent
    if changes or any(group.missing for group in groups):
        write_record(record, found)
        for target, _, wanted in list(changes):
            try:
                put(target, wanted)
            except CannotSet:
                if target.name not in movable:
                    raise
                changes = [change for change in changes if change[0] is not target]
                absent.append(target.name)
        for group in groups:
            changes += group.put()
    return changes, absent


def restore(record, check):
    """Brings back what was found; whatever refuses stays in the record."""
    found = read_record(record)
    changes, left, problems = [], [], []
    for entry in reversed(found):
        target = target_of(entry)
        try:
            before = target.read()
            if before is not None and same(entry["value"], before):
                continue
            changes.append((target, str(before), entry["value"]))
            if not check:
                put(target, entry["value"])
        except (CannotSet, OSError) as problem:
            problems.append(str(problem))
            left.insert(0, entry)
    if not check:
        if left:
            write_record(record, left)
        elif os.path.exists(record):
            os.remove(record)
            with contextlib.suppress(OSError):
                os.rmdir(os.path.dirname(record))  # ours, unless something else lies in it
    if problems:
        raise CannotSet("; ".join(problems))
    return changes, []


def main():
    """What Ansible runs."""
    from ansible.module_utils.basic import AnsibleModule

    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["applied", "restored"], "default": "applied"},
            "record": {"type": "path", "required": True},
            "settings": {"type": "list", "elements": "dict", "default": []},
        },
        supports_check_mode=True,
    )
    given = module.params
    try:
        if not module.check_mode:
            refuse_during_trial()
        if given["state"] == "applied":
            changes, absent = apply(given["settings"], given["record"], module.check_mode)
        else:
            changes, absent = restore(given["record"], module.check_mode)
    except (CannotSet, OSError) as error:
        module.fail_json(msg=str(error))
    lines = [
        "".join(f"{target.name}: {value}\n" for target, value in pairs)
        for pairs in ([(t, b) for t, b, _ in changes], [(t, w) for t, _, w in changes])
    ]
    module.exit_json(
        changed=bool(changes),
        settings=[{"name": t.name, "before": b, "after": w} for t, b, w in changes],
        absent=absent,
        diff={"before": lines[0], "after": lines[1], "before_header": "as found", "after_header": "as set"},
    )


if __name__ == "__main__":
    main()
