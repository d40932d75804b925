"""What the servers share: the bound socket, and the error when one ends by itself."""

from __future__ import annotations

import socket

BACKLOG = 1024


class ServerEnded(Exception):
    """The server stopped without being asked to; the process had better start again."""


def bind(host: str, port: int) -> socket.socket:
    """Return a bound socket; ``::`` takes IPv4 as well, and is ``0.0.0.0`` where there is no IPv6."""
    if host == "::" and not socket.has_dualstack_ipv6():
        host = "0.0.0.0"  # noqa: S104 - the port is meant to be reachable
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=BACKLOG, dualstack_ipv6=host == "::")
