"""Addresses of Dask schedulers: checked where they are given, looked at before anything is sent there."""

from __future__ import annotations

import re
from itertools import count

from tiertune.files import InputError

LOCAL = "local"
"""Instead of an address: a cluster of processes on this machine, gone with the campaign."""

SCHEMES = ("tcp", "tls", "ws", "wss", "ucx")
PORT = 8786
"""The one that Dask's own scheduler takes where none is said."""
CONNECT_S = 10.0

_ADDRESS = re.compile(
    r"(?:(?P<scheme>[^:/]+)://)?(?P<host>\[[^\[\]/\s]+\]|[^\[\]:/\s]+)(?::(?P<port>\d+))?/?"
)


def check_address(what: str, text: str) -> None:
    """Raises InputError where `text`, which `what` was given, is no address with a port."""
    found = _ADDRESS.fullmatch(text)
    if found is None:
        raise InputError(f"{what} {text}: is no address of a scheduler; write one as tcp://HOST:{PORT}")
    scheme, port = found["scheme"] or SCHEMES[0], int(found["port"] or 0)
    if scheme in SCHEMES and 0 < port < 2**16:
        return
    near = f"{scheme if scheme in SCHEMES else SCHEMES[0]}://{found['host']}:"
    near += str(port if 0 < port < 2**16 else PORT)
    raise InputError(f"{what} {text}: is no address of a scheduler; did you mean {near}?")


async def greet(address: str) -> None:
    """Raises OSError where no scheduler answers. A client that finds that out itself says so once more, with
    a traceback, when it is gone."""
    from distributed import Security, connect

    try:
        comm = await connect(address, timeout=CONNECT_S, **Security().get_connection_args("client"))
    except OSError:
        raise
    except Exception as error:  # whatever another program that listens there made of it
        raise OSError(f"what answers there is none: {type(error).__name__}: {error}") from error
    await comm.close()


async def check_name(address: str, name: str) -> None:
    """Raises InputError where a worker of the scheduler has this name. A worker that finds that out itself
    says so twice, with tracebacks."""
    from distributed import Security
    from distributed.core import rpc

    security = Security().get_connection_args("client")
    async with rpc(address, timeout=CONNECT_S, connection_args=security) as scheduler:
        told = await scheduler.identity(n_workers=-1)
    taken = {str(worker["name"]) for worker in told["workers"].values()}
    if name in taken:
        free = next(f"{name}-{number}" for number in count(2) if f"{name}-{number}" not in taken)
        raise InputError(
            f"--name {name}: a worker of {address} has this name; the nearest free one is {free}"
        )
