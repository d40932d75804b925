"""aictl as a process of its own, as a user runs it."""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass
class Ended:
    """Exit code and what was said."""

    code: int
    out: str
    err: str


class Aictl:
    """``await Aictl.start(kubeconfig, "wait", "gemma")``: a command that runs."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._said = b""

    @classmethod
    async def start(cls, kubeconfig: Path, *arguments: str) -> Aictl:
        environment = {"PATH": os.environ["PATH"], "KUBECONFIG": str(kubeconfig), "PYTHONPATH": "src"}
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "aictl", *arguments, env=environment, stdout=-1, stderr=-1
        )
        return cls(process)

    async def says(self, words: str) -> None:
        """Return when it has said so on standard error."""
        assert self._process.stderr
        async with asyncio.timeout(60):
            while words.encode() not in self._said:
                line = await self._process.stderr.readline()
                assert line, self._said.decode()
                self._said += line

    def send_signal(self, number: int) -> None:
        self._process.send_signal(number)

    async def end(self) -> Ended:
        """Wait for its end."""
        out, err = await asyncio.wait_for(self._process.communicate(), 60)
        assert self._process.returncode is not None
        return Ended(self._process.returncode, out.decode(), (self._said + err).decode())


async def aictl(kubeconfig: Path, *arguments: str) -> Ended:
    """Run a command to its end."""
    return await (await Aictl.start(kubeconfig, *arguments)).end()
