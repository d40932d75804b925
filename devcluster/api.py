"""A minimal client of the cluster's API, for what the orchestrator itself needs to know."""

from __future__ import annotations

import json
import ssl
import urllib.request
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from devcluster.settings import Settings

TIMEOUT = 10


class Api:
    """Speaks JSON to the API server as the cluster's administrator."""

    def __init__(self, settings: Settings) -> None:
        self._url = settings.apiserver_url
        tls = ssl.create_default_context(cafile=str(settings.pki / "ca.crt"))
        tls.load_cert_chain(settings.pki / "admin.crt", settings.pki / "admin.key")
        handlers = (urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=tls))
        self._opener = urllib.request.build_opener(*handlers)

    def get(self, path: str) -> Any:
        """Return what the path holds."""
        return json.loads(self._text(path))

    def problem(self, path: str) -> str | None:
        """Return why the path cannot be read, or None if it can."""
        try:
            self._text(path)
        except OSError as error:
            return str(error)
        return None

    def _text(self, path: str) -> str:
        with self._opener.open(self._url + path, timeout=TIMEOUT) as response:
            content: bytes = response.read()
        return content.decode()
