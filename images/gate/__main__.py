"""The gate's command line, as a container's command: everything it does is told here."""

from __future__ import annotations

import argparse
import asyncio
import socket
import sys
from pathlib import Path

from .config import Route, Settings
from .supervisor import Duties, Supervisor, say


def main(arguments: list[str] | None = None) -> int:
    """Run a gate until a signal says to stop; 2 when it was told something impossible."""
    options = _parser().parse_args(arguments)
    try:
        settings = _settings(options)
    except ValueError as error:
        say("error", "the gate cannot start", err=str(error))
        return 2
    duties = Duties(
        secret=options.keys,
        key_seconds=options.key_seconds,
        drain_host=options.host,
        drain_port=options.drain_port,
        drain_path=options.drain_path,
        settle_seconds=options.settle_seconds,
        resume_seconds=options.resume_seconds,
    )
    return asyncio.run(_run(settings, duties))


async def _run(settings: Settings, duties: Duties) -> int:
    return await Supervisor(settings, duties).run()


def _settings(options: argparse.Namespace) -> Settings:
    return Settings(
        routes=tuple(Route.parse(text) for text in options.route),
        keys=options.keys is not None,
        listen=_address(options.host, options.port),
        metrics_listen=_address(options.host, options.metrics_port),
        upstream=options.upstream,
        directory=str(options.directory),
        body_limit=options.body_limit,
        header_seconds=options.header_seconds,
        body_seconds=options.body_seconds,
        client_requests=options.client_requests,
        requests=options.requests,
        proxied=options.proxied,
        connect_seconds=options.connect_seconds,
        answer_seconds=options.answer_seconds,
    )


def _address(host: str | None, port: int) -> str:
    """Return what nginx listens on: IPv4 and IPv6 at once, or IPv4 where the machine has no more."""
    if host:
        return f"{host}:{port}"
    return f"[::]:{port} ipv6only=off" if socket.has_dualstack_ipv6() else str(port)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gate", description=__doc__)
    add = parser.add_argument
    add("--route", action="append", required=True, metavar="METHOD=PATH", help="what passes; repeatable")
    add("--keys", type=Path, metavar="FOLDER", help="the mounted Secret; absent: no key is asked for")
    add("--host", help="address to listen on (default: all)")
    add("--port", type=int, default=8000)
    add("--metrics-port", type=int, default=8002)
    add("--drain-port", type=int, default=8003)
    add("--drain-path", help="asking for this path lets the gate finish; absent: nobody can")
    add("--upstream", default="127.0.0.1:8001", help="where the runtime listens")
    add("--directory", type=Path, default=Path("/run/gate"), help="a folder in memory")
    add("--body-limit", type=int, default=Settings.body_limit, help="bytes")
    add("--header-seconds", type=int, default=Settings.header_seconds)
    add("--body-seconds", type=int, default=Settings.body_seconds)
    add("--client-requests", type=int, default=Settings.client_requests, help="at a time, of one client")
    add("--requests", type=int, help="at a time, of all clients (default: no bound)")
    add("--proxied", action="store_true", help="clients come through a proxy that sets X-Forwarded-For")
    add("--connect-seconds", type=int, default=Settings.connect_seconds)
    add("--answer-seconds", type=int, default=Settings.answer_seconds)
    add("--key-seconds", type=float, default=1.0, help="how often the Secret is looked at")
    add("--settle-seconds", type=float, default=5.0, help="how long a drain still takes connections")
    add("--resume-seconds", type=float, default=30.0, help="how long after a drain the gate opens again")
    return parser


if __name__ == "__main__":
    sys.exit(main())
