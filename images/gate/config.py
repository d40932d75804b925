"""nginx's configuration for a gate. Pure: equal settings, equal text.

What belongs here: what the gate lets through and how it says no. What does not: which paths an order serves,
which whoever starts the gate knows; the keys, which are looked up as files at each request, so that a new key
needs no reload and breaks no connection.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from . import refusals

KEYS_FOLDER = "keys"
#: of a key: what can stand in a header and in a file's name, and is too long to be guessed
KEY = r"[A-Za-z0-9_-][A-Za-z0-9._-]{15,199}"
#: one that has sent nothing yet is given up for a new one; with all of their headers they fit into the memory
CONNECTIONS = 4096
HEADER_BUFFERS, HEADER_BUFFER_KIB = 4, 8
#: asked by the kubelet: the gate alone, and the runtime behind it
ALIVE_PATH, HEALTH_PATH, METRICS_PATH = "/gate/alive", "/health", "/metrics"

_PATH = re.compile(r"/[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*\Z")
_METHOD = re.compile(r"[A-Z]{3,10}\Z")
#: the last address of X-Forwarded-For, which the nearest proxy has written
_PEER = "[0-9A-Fa-f.:]{2,45}"
_ADDRESS = re.compile(r"[A-Za-z0-9.:\[\]-]+( ipv6only=off)?\Z")


@dataclass(frozen=True)
class Route:
    """A path of the API and the one method that it is called with."""

    method: str
    path: str

    @classmethod
    def parse(cls, text: str) -> Route:
        """Read ``POST=/v1/completions``."""
        method, _, path = text.partition("=")
        if not (_METHOD.match(method) and _PATH.match(path)) or ".." in path:
            raise ValueError(f"{text!r} is no route; write METHOD=/path, as in POST=/v1/completions")
        return cls(method, path)


@dataclass(frozen=True)
class Settings:
    """What one gate does."""

    routes: tuple[Route, ...]
    #: False: whoever reaches the gate may use it
    keys: bool
    listen: str
    metrics_listen: str
    upstream: str
    #: everything that changes while the gate runs
    directory: str
    body_limit: int = 256 << 20
    #: a client has so long for its headers, and between two pieces of its body
    header_seconds: int = 10
    body_seconds: int = 20
    #: requests on their way at a time: of one client, and of all; None: as many as there are connections
    client_requests: int = 64
    requests: int | None = None
    #: whether clients come through a proxy, which says in X-Forwarded-For who they are
    proxied: bool = False
    #: a runtime takes connections at once, but may think for long before it says the first word
    connect_seconds: int = 5
    answer_seconds: int = 3600

    def __post_init__(self) -> None:
        """Refuse what would say something else to nginx."""
        for address in (self.listen, self.metrics_listen, self.upstream):
            if not _ADDRESS.match(address):
                raise ValueError(f"{address!r} is no address; write host:port")
        if not re.fullmatch(r"(/[A-Za-z0-9_.-]+)+", self.directory):
            raise ValueError(f"{self.directory!r} has characters that cannot stand in a configuration")
        for number in (self.client_requests, self.requests):
            if number is not None and number < 1:
                raise ValueError(f"{number} requests at a time are none; write 1 or more")


_INDENT = "    "


def render(settings: Settings) -> str:
    """Return the whole configuration."""
    http = [
        *_LOGS,
        *_temporary(settings.directory),
        *_maps(settings),
        *_counting(settings),
        *_LIMITS,
        f"client_header_timeout {settings.header_seconds}s;",
        f"client_body_timeout {settings.body_seconds}s;",
        *_block("server", _api(settings)),
        *_block("server", _metrics(settings)),
    ]
    lines = [
        "daemon off;",
        "worker_processes 1;",
        f"worker_rlimit_nofile {2 * CONNECTIONS};",
        f"pid {settings.directory}/nginx.pid;",
        # From `crit` downwards nginx writes request lines, in which a careless client may have put a key, and
        # names of files that it could not look at, which are keys.
        "error_log stderr alert;",
        *_block("events", [f"worker_connections {CONNECTIONS};"]),
        *_block("http", http),
    ]
    return "\n".join(lines) + "\n"


_LOG = {
    "ts": "$time_iso8601",
    "level": "info",
    "component": "gate",
    "msg": "request",
    "request_id": "$gate_request_id",
    "method": "$request_method",
    "route": "$gate_route",
    "status": "$status",
    "bytes": "$body_bytes_sent",
    "duration_s": "$request_time",
    "upstream_status": "$upstream_status",
    "upstream_s": "$upstream_response_time",
}
#: no path, no query, no header: only words of ours and numbers
_LOGS = (f"log_format gate escape=json '{json.dumps(_LOG)}';", "access_log /dev/stdout gate;")
_LIMITS = (
    "default_type application/json;",
    "server_tokens off;",
    "absolute_redirect off;",
    "merge_slashes off;",
    "keepalive_timeout 75s;",
    "client_header_buffer_size 1k;",
    f"large_client_header_buffers {HEADER_BUFFERS} {HEADER_BUFFER_KIB}k;",
    "reset_timedout_connection on;",
    # what a refused client still sends
    "lingering_timeout 2s;",
    "lingering_time 10s;",
    # between two pieces of an answer that a client takes
    "send_timeout 60s;",
)


def _counting(settings: Settings) -> list[str]:
    """Bound the requests on their way, so that neither one client nor all together take every thread.

    Behind a proxy all clients share its address; then the one that the proxy names counts. A client inside
    the cluster may name another each time, which is why all together are bounded too.
    """
    zones = ["limit_conn_zone $gate_client zone=client:1m;", "limit_conn_zone gate zone=all:64k;"]
    named = [f'"~(?<gate_named>{_PEER})\\x20*$" $gate_named;'] if settings.proxied else []
    clients = ["default $binary_remote_addr;", *named]
    return [*_block("map $http_x_forwarded_for $gate_client", clients), *zones, "limit_conn_status 429;"]


def _temporary(directory: str) -> list[str]:
    """Nothing is written there, as nothing is buffered, but nginx makes the folders at its start."""
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    return [f"{kind}_temp_path {directory}/{kind};" for kind in kinds]


def _maps(settings: Settings) -> list[str]:
    """Judge the address as it was written, before nginx decodes or shortens anything in it."""
    routes = ['default "";']
    methods = ['default "GET";']
    for route in settings.routes:
        routes.append(f'"~^{re.escape(route.path)}(?:\\?|$)" "{route.path}";')
        methods.append(f'"{route.path}" "{route.method}";')
    return [
        *_block("map $request_uri $gate_route", routes),
        *_block("map $gate_route $gate_method", methods),
        *_block(
            "map $http_x_request_id $gate_request_id",
            ["default $request_id;", '"~^[A-Za-z0-9._-]{1,128}$" $http_x_request_id;'],
        ),
        *_block(
            "map $http_authorization $gate_key",
            ['default "";', f'"~*^Bearer\\x20+(?<gate_presented>{KEY})\\x20*$" $gate_presented;'],
        ),
    ]


def _api(settings: Settings) -> list[str]:
    lines = [
        f"listen {settings.listen};",
        f"client_max_body_size {settings.body_limit};",
        *_errors(settings),
        *_block(f"location = {ALIVE_PATH}", ["access_log off;", 'return 200 \'{"status":"ok"}\';']),
        *_block(f"location = {HEALTH_PATH}", _asking(settings, HEALTH_PATH)),
        *_block("location /", ["return 404;"]),
    ]
    for route in settings.routes:
        lines += _block(f"location = {route.path}", _route(settings, route))
    return lines


def _route(settings: Settings, route: Route) -> list[str]:
    lines = [f'if ($gate_route != "{route.path}") {{ return 404; }}']
    if settings.keys:
        # A name that no file has is told by the kernel's hash of the whole name: how much of it was right
        # does not show in the time. The folder itself is no file, so an empty key is none.
        lines.append(f"if (!-f {settings.directory}/{KEYS_FOLDER}/$gate_key) {{ return 401; }}")
    lines.append(f"if ($request_method != {route.method}) {{ return 405; }}")
    lines.append(f"limit_conn client {settings.client_requests};")
    if settings.requests is not None:
        lines.append(f"limit_conn all {settings.requests};")
    return [
        *lines,
        f"proxy_pass http://{settings.upstream}{route.path};",
        *_PROXY,
        f"proxy_connect_timeout {settings.connect_seconds}s;",
        f"proxy_read_timeout {settings.answer_seconds}s;",
        f"proxy_send_timeout {settings.body_seconds}s;",
    ]


#: A connection for each request: runtimes serve a connection with a thread of its own, which an idle one
#: would keep from others, and one that the runtime closes meanwhile would fail a request.
_PROXY = (
    "proxy_http_version 1.1;",
    "proxy_buffering off;",
    "proxy_request_buffering off;",
    "proxy_socket_keepalive on;",
    "proxy_next_upstream off;",
    "proxy_redirect off;",
    "proxy_ignore_headers X-Accel-Redirect X-Accel-Buffering X-Accel-Limit-Rate X-Accel-Charset;",
    'proxy_set_header Authorization "";',
    "proxy_set_header Host $http_host;",
    "proxy_set_header X-Request-Id $gate_request_id;",
    "proxy_hide_header X-Request-Id;",
    "add_header X-Request-Id $gate_request_id always;",
)


def _asking(settings: Settings, path: str) -> list[str]:
    """Pass on a question without a body, for which nobody needs a key."""
    return [
        "access_log off;",
        "if ($request_method !~ ^(GET|HEAD)$) { return 405; }",
        f"proxy_pass http://{settings.upstream}{path};",
        "proxy_http_version 1.1;",
        "proxy_pass_request_body off;",
        'proxy_set_header Content-Length "";',
        'proxy_set_header Authorization "";',
        "proxy_next_upstream off;",
        f"proxy_connect_timeout {settings.connect_seconds}s;",
    ]


def _metrics(settings: Settings) -> list[str]:
    return [
        f"listen {settings.metrics_listen};",
        "client_max_body_size 1k;",
        *_errors(settings),
        *_block(f"location = {METRICS_PATH}", _asking(settings, METRICS_PATH)),
        *_block("location /", ["return 404;"]),
    ]


def _errors(settings: Settings) -> list[str]:
    words = {
        "paths": ", ".join(route.path for route in settings.routes),
        "body_limit": str(settings.body_limit),
        "client_requests": str(settings.client_requests),
    }
    lines = []
    for directive, location, answer in refusals.directives(words):
        lines += [directive, *_block(location, answer)]
    return lines


def _block(head: str, lines: list[str]) -> list[str]:
    return [f"{head} {{", *(_INDENT + line for line in lines), "}"]
