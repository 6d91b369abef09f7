"""Free TCP ports on the loopback.

They lie below the range from which the kernel takes the local ports of outgoing connections: while a
server is down for a restart, no client's connection can then take its port, nor connect to itself.
"""

import random
import socket
from pathlib import Path

from windrow.errors import EnvironmentUnfit

HOST = "127.0.0.1"
LOWEST = 10_000
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_handed_out: set[int] = set()


def free_port() -> int:
    """A port that is free now, and that this process has not handed out before."""
    highest = _first_outgoing_port() - 1
    if highest <= LOWEST:
        raise EnvironmentUnfit(
            f"no ports are left between {LOWEST} and the ones for outgoing connections, which start at "
            f"{highest + 1}; raise net.ipv4.ip_local_port_range"
        )
    for _ in range(1000):
        port = random.randint(LOWEST, highest)  # noqa: S311 - no secret
        if port not in _handed_out and is_free(port):
            _handed_out.add(port)
            return port
    raise EnvironmentUnfit(f"found no free port between {LOWEST} and {highest}; stop some servers")


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As servers do: a connection of the last server that lingers in TIME_WAIT does not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def claim(port: int, server: str) -> None:
    """Raises `EnvironmentUnfit` unless the port can be had."""
    if not is_free(port):
        raise EnvironmentUnfit(
            f"port {port}, wanted for {server}, is in use by another process or not allowed; "
            f"stop that process (`ss -ltnp 'sport = :{port}'` names it) or give another port"
        )


def accepts(port: int) -> bool:
    """Whether something listens there."""
    try:
        socket.create_connection((HOST, port), timeout=1).close()
    except OSError:
        return False
    return True


def _first_outgoing_port() -> int:
    try:
        return int(_RANGE.read_text().split()[0])
    except (OSError, ValueError):
        return 32_768
