"""The real llama.cpp server of the project's image, as a process, with the demo's small model."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Self

from images import builds, pythonimage
from tests.kit.dmcr import free_port
from tests.kit.rawhttp import ask

if TYPE_CHECKING:
    from pathlib import Path

SOURCES = builds.HERE / "llama"
NAME = "gemma"
_PATIENCE = 120


class Llama:
    """``async with Llama(model, log, *options) as llama``: it answers at ``llama.port``."""

    def __init__(self, model: Path, log: Path, *options: str) -> None:
        self._model = model
        self._log = log
        self._options = options
        self.port = 0

    async def __aenter__(self) -> Self:
        self.port = free_port()
        wheels = pythonimage.wheels_folder("llama-wheels", SOURCES / "requirements.lock")
        command = [sys.executable, str(SOURCES / "serve.py"), "--model", str(self._model), "--alias", NAME]
        command += ["--host", "127.0.0.1", "--port", str(self.port), "--ctx-size", "1024"]
        # Threads that share cores with others wait for each other far longer than they work.
        command += ["--threads", "1", *self._options]
        with self._log.open("wb") as log:
            self.process = await asyncio.create_subprocess_exec(
                *command, env=os.environ | {"PYTHONPATH": str(wheels)}, stdout=log, stderr=log
            )
        await self._answers()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()

    async def _answers(self) -> None:
        async with asyncio.timeout(_PATIENCE):
            while True:
                if self.process.returncode is not None:
                    raise RuntimeError(f"the server ended:\n{self._log.read_text()[-2000:]}")
                try:
                    if (await ask(self.port, "GET", "/health")).status == 200:
                        return
                except OSError:
                    pass
                await asyncio.sleep(0.1)
