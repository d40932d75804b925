"""The real gate as processes: the program of its image, with the nginx of its image, on free ports."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Self

from images import gateimage
from tests.kit.controlplane import free_ports

if TYPE_CHECKING:
    from collections.abc import Sequence

CHECKOUT = Path(__file__).parents[2]
CHAT_ROUTES = ("POST=/v1/chat/completions", "POST=/v1/completions", "GET=/v1/models")
KEY, OTHER_KEY = "a-key-of-32-characters-for-tests", "another-key-of-32-characters-yes"
_PATIENCE = 20


class RunningGate:
    """``async with RunningGate(folder, upstream) as gate``; keys are changed by ``gate.write_keys``."""

    def __init__(
        self,
        folder: Path,
        upstream: int,
        *options: str,
        keys: dict[str, str] | None = None,
        routes: Sequence[str] = CHAT_ROUTES,
        host: str | None = "127.0.0.1",
    ) -> None:
        self._folder = folder
        self._upstream = upstream
        self._options = options
        self._routes = routes
        self._keys = keys
        self._host = ["--host", host] if host else []
        self.secret = folder / "secret"
        self.log = folder / "gate.log"
        self.port = self.metrics_port = self.drain_port = 0

    async def __aenter__(self) -> Self:
        if self._keys is not None:
            self.secret.mkdir(exist_ok=True)
            self.write_keys(**self._keys)
        self._ports = free_ports()
        self.port = self._ports.__enter__()
        self.metrics_port, self.drain_port = self.port + 1, self.port + 2
        with self.log.open("wb") as log:
            self.process = await asyncio.create_subprocess_exec(
                *self._command(), cwd=CHECKOUT, env=environment(), stdout=log, stderr=log
            )
        await self._answers()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                async with asyncio.timeout(_PATIENCE):
                    await self.process.wait()
            except TimeoutError:
                self.process.kill()
                raise
        self._ports.__exit__(None, None, None)

    def write_keys(self, **values: str) -> None:
        """Make the Secret's files be these, each changed at once as a kubelet does it."""
        for path in self.secret.iterdir():
            if path.name not in values:
                path.unlink()
        for name, value in values.items():
            fresh = self.secret.with_suffix(f".{name}")
            fresh.write_text(value)
            fresh.rename(self.secret / name)

    def said(self) -> str:
        """Return everything that the gate has logged."""
        return self.log.read_text()

    def _command(self) -> list[str]:
        words = [sys.executable, "-m", "images.gate", *self._host, "--port", str(self.port)]
        words += ["--metrics-port", str(self.metrics_port), "--drain-port", str(self.drain_port)]
        words += ["--upstream", f"127.0.0.1:{self._upstream}", "--directory", str(self._folder / "run")]
        words += [word for route in self._routes for word in ("--route", route)]
        words += ["--key-seconds", "0.05", *self._options]
        return [*words, "--keys", str(self.secret)] if self._keys is not None else words

    async def _answers(self) -> None:
        async with asyncio.timeout(_PATIENCE):
            while True:
                if self.process.returncode is not None:
                    raise RuntimeError(f"the gate ended:\n{self.said()}")
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", self.port)
                except OSError:
                    await asyncio.sleep(0.02)
                else:
                    writer.close()
                    return


def environment() -> dict[str, str]:
    """Return an environment in which the image's nginx, and what it is linked with, is found."""
    root = gateimage.nginx()
    libraries = sorted({str(path.parent) for path in (root / "usr/lib").rglob("*.so*")})
    return {
        **os.environ,
        "PATH": f"{root / 'usr/sbin'}:{os.environ['PATH']}",
        "LD_LIBRARY_PATH": ":".join(libraries),
    }
