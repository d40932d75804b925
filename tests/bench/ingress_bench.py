"""What an ingress controller costs between client and backend: Ingresses of two classes and an HTTPRoute.

Client and backend are threads of this process and share its clock; between them is Traefik on devcluster, or,
in the first row, nothing. All ways are measured in turns.

* ``upload``, ``download``: MB a second of one large body.
* ``piece up``: median ms from when a client has sent a piece of a long body until the backend has it, with
  the next one sent only then. A way that holds bodies back never gets past the first.
* ``event down``: the same for server-sent events: each is sent when the client has read the one before.

It asserts nothing; a way that holds a body back ends with a time-out.

    .venv/bin/python tests/bench/ingress_bench.py [--mb 256] [--pieces 50] [--rounds 3]
"""

from __future__ import annotations

import argparse
import http.client
import queue
import statistics
import sys
import threading
import time
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from devcluster import cluster, ingress, settings
from devcluster.progress import Progress
from devcluster.settings import default_directory
from tests.kit.controlplane import fresh_namespace
from tests.kit.entrance import Entrance, route
from tests.kit.journey import until
from tools import installation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tools.installation import Target

MB = 10**6
BLOCK = bytes(MB)
PIECE = b"x" * 1024
WAIT = 20.0
NGINX = "nginx.ingress.kubernetes.io"
ANNOTATIONS = {
    f"{NGINX}/proxy-body-size": "0",
    f"{NGINX}/proxy-request-buffering": "off",
    f"{NGINX}/proxy-buffering": "off",
}


class Backend(ThreadingHTTPServer):
    """Takes and gives bodies; says when a piece has come, and sends an event when it is told to."""

    daemon_threads = True

    def __init__(self, address: str) -> None:
        super().__init__((address, 0), _Handler)
        self.came: queue.Queue[float] = queue.Queue()
        self.next: queue.Queue[bool] = queue.Queue()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Backend

    def do_PUT(self) -> None:
        left = int(self.headers["Content-Length"])
        each = "pieces" in self.path
        while left:
            left -= len(self.rfile.read(min(left, len(PIECE) if each else MB)))
            if each:
                self.server.came.put(time.perf_counter())
        self._head(0)

    def do_GET(self) -> None:
        if "events" not in self.path:
            wanted = int(self.path.rpartition("/")[2])
            self._head(wanted * MB)
            for _ in range(wanted):
                self.wfile.write(BLOCK)
            return
        self._head(None)
        while self.server.next.get(timeout=WAIT):
            event = f"data: {time.perf_counter()}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
        self.wfile.write(b"0\r\n\r\n")

    def _head(self, size: int | None) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        if size is None:
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Content-Length", str(size))
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@dataclass
class Way:
    """One way to the backend, with its figures of all rounds."""

    name: str
    connect: Callable[[], AbstractContextManager[http.client.HTTPConnection]]
    figures: dict[str, list[float]] = field(default_factory=dict)

    def measure(self, backend: Backend, megabytes: int, pieces: int) -> None:
        """Add the figures of a round."""
        for row, made in (
            ("upload MB/s", [self._upload(megabytes)]),
            ("download MB/s", [self._download(megabytes)]),
            ("piece up ms", self._pieces(backend, pieces)),
            ("event down ms", self._events(backend, pieces)),
        ):
            self.figures.setdefault(row, []).extend(made)

    def _upload(self, megabytes: int) -> float:
        start = time.perf_counter()
        with self.connect() as connection:
            connection.putrequest("PUT", "/whole")
            connection.putheader("Content-Length", str(megabytes * MB))
            connection.endheaders()
            for _ in range(megabytes):
                connection.send(BLOCK)
            connection.getresponse().read()
        return megabytes / (time.perf_counter() - start)

    def _download(self, megabytes: int) -> float:
        start = time.perf_counter()
        with self.connect() as connection:
            connection.request("GET", f"/size/{megabytes}")
            answer = connection.getresponse()
            while answer.read(MB):
                pass
        return megabytes / (time.perf_counter() - start)

    def _pieces(self, backend: Backend, pieces: int) -> list[float]:
        found = []
        with self.connect() as connection:
            connection.putrequest("PUT", "/pieces")
            connection.putheader("Content-Length", str(pieces * len(PIECE)))
            connection.endheaders()
            for _ in range(pieces):
                sent = time.perf_counter()
                connection.send(PIECE)
                found.append((backend.came.get(timeout=WAIT) - sent) * 1e3)
            connection.getresponse().read()
        return found

    def _events(self, backend: Backend, events: int) -> list[float]:
        found = []
        with self.connect() as connection:
            backend.next.put(events > 0)
            connection.request("GET", "/events")
            answer = connection.getresponse()
            for number in range(events):
                told = float(answer.readline().split()[1])
                found.append((time.perf_counter() - told) * 1e3)
                answer.readline()
                backend.next.put(number + 1 < events)
            answer.read()
        return found


@contextmanager
def ways(backend: Backend, entrance: Entrance, namespace: str) -> Iterator[list[Way]]:
    """Give the ways to the backend when all of them lead there."""
    address, port = str(backend.server_address[0]), int(backend.server_address[1])
    hosts = {name: f"bench-{name.lower()}.{ingress.DOMAIN}" for name in ("traefik", "nginx", "HTTPRoute")}
    entrance.certify(namespace, "bench")
    entrance.apply(
        *_service(namespace, address, port),
        *(_ingress(namespace, name, hosts[name]) for name in ("traefik", "nginx")),
        route(namespace, "bench", hosts["HTTPRoute"], "bench", 80),
    )

    def through(host: str) -> Way:
        return Way(host, lambda: entrance.connection(host))

    found = [through(host) for host in hosts.values()]
    for way in found:
        until(partial(_leads, way), 30, f"{way.name} leads to the backend")
    for way, name in zip(found, ("Ingress traefik", "Ingress nginx", "HTTPRoute"), strict=True):
        way.name = name
    yield [Way("direct", lambda: closing(http.client.HTTPConnection(address, port, timeout=60))), *found]


def _leads(way: Way) -> bool:
    with way.connect() as connection:
        connection.request("GET", "/size/0")
        return connection.getresponse().status == 200


def _service(namespace: str, address: str, port: int) -> list[dict[str, Any]]:
    head = {"name": "bench", "namespace": namespace}
    labels = {"kubernetes.io/service-name": "bench"}
    ports = [{"name": "http", "port": port}]
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": head,
            "spec": {"ports": [ports[0] | {"port": 80}]},
        },
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": head | {"labels": labels},
            "addressType": "IPv4",
            "ports": ports,
            "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        },
    ]


def _ingress(namespace: str, kind: str, host: str) -> dict[str, Any]:
    backend = {"service": {"name": "bench", "port": {"name": "http"}}}
    paths = [{"path": "/", "pathType": "Prefix", "backend": backend}]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": f"bench-{kind}", "namespace": namespace, "annotations": ANNOTATIONS},
        "spec": {
            "ingressClassName": kind,
            "tls": [{"hosts": [host], "secretName": "bench"}],
            "rules": [{"host": host, "http": {"paths": paths}}],
        },
    }


def _print(found: list[Way]) -> None:
    rows = list(found[0].figures)
    print(f"\n{'':<18}" + "".join(f"{row:>16}" for row in rows))
    for way in found:
        medians = (statistics.median(way.figures[row]) for row in rows)
        print(f"{way.name:<18}" + "".join(f"{value:>16.2f}" for value in medians))


def main() -> None:
    """Bring up what is needed, measure every way in every round, print."""
    parser = argparse.ArgumentParser(description="What lies between a client and a backend.")
    parser.add_argument("--mb", type=int, default=256)
    parser.add_argument("--pieces", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    progress = Progress()
    was_there = settings.load(default_directory()) is not None
    target = installation.own_cluster(progress)
    try:
        _print(_measured(target, progress, options))
    finally:
        if not was_there:
            cluster.down(default_directory(), progress)


def _measured(target: Target, progress: Progress, options: argparse.Namespace) -> list[Way]:
    ingress.install(default_directory(), progress)
    running = settings.require(default_directory())
    files = (running.pki / "ca.crt", *ingress.certificate(running))
    entrance = Entrance(target, running.node_ip, *files)
    backend = Backend(running.node_ip)
    threading.Thread(target=backend.serve_forever, daemon=True).start()
    with fresh_namespace(target.kubeconfig) as namespace, ways(backend, entrance, namespace) as found:
        for _ in range(options.rounds):
            for way in found:
                way.measure(backend, options.mb, options.pieces)
        return found


if __name__ == "__main__":
    main()
