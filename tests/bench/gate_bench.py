"""What the gate costs: the same real runtime, bare and behind its gate, in turns in one run.

Rows, each with both figures and what the gate adds:

* ``GET /v1/models``: a question that costs the runtime nothing; median of single requests, one after another.
* ``one token``: the smallest completion, the same way.
* ``first token``: median time until a stream's first piece.
* ``stream``: tokens a second over all streams at once.

Every round asks the bare runtime and the gate, in changing order, so that whatever else the machine does
meets both. It asserts nothing; the bounds are printed beside the figures.

    .venv/bin/python tests/bench/gate_bench.py [--rounds 8] [--requests 100] [--tokens 64] [--streams 2]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import aiohttp

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.kit.inferencegate import KEY, RunningGate
from tests.kit.llama import NAME, Llama
from tools.demo import gemma

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

HEADERS = {"Authorization": f"Bearer {KEY}"}
MOST_ADDED = 1e-3
MOST_LOST = 0.05


class Stream(NamedTuple):
    """One streamed answer."""

    first: float
    tokens: int


class Side:
    """One of the two ways to the runtime, with its figures of all rounds."""

    def __init__(self, session: aiohttp.ClientSession, port: int) -> None:
        self._session = session
        self._url = f"http://127.0.0.1:{port}"
        self.figures: dict[str, list[float]] = {}

    def note(self, row: str, *values: float) -> None:
        """Keep figures of a round."""
        self.figures.setdefault(row, []).extend(values)

    async def models(self) -> float:
        """Ask for the list and return how long it took."""
        start = time.perf_counter()
        async with self._session.get(f"{self._url}/v1/models", headers=HEADERS) as answer:
            await answer.read()
            answer.raise_for_status()
        return time.perf_counter() - start

    async def one_token(self) -> float:
        """Ask for one token and return how long it took."""
        start = time.perf_counter()
        async with self._complete(1, stream=False) as answer:
            answer.raise_for_status()
            await answer.read()
        return time.perf_counter() - start

    async def stream(self, tokens: int) -> Stream:
        """Ask for tokens as a stream."""
        start, first, count = time.perf_counter(), 0.0, 0
        async with self._complete(tokens, stream=True) as answer:
            answer.raise_for_status()
            async for line in answer.content:
                if line.startswith(b"data: {"):
                    first = first or time.perf_counter() - start
                    count += 1
        return Stream(first, count)

    def _complete(self, tokens: int, *, stream: bool) -> aiohttp.client._RequestContextManager:
        body = {
            "model": NAME,
            "prompt": "Count: one, two, three,",
            "max_tokens": tokens,
            "temperature": 0,
            "ignore_eos": True,
            "stream": stream,
        }
        return self._session.post(f"{self._url}/v1/completions", data=json.dumps(body), headers=HEADERS)


async def _single(side: Side, row: str, ask: Callable[[], Awaitable[float]], requests: int) -> None:
    side.note(row, *[await ask() for _ in range(requests)])


async def _streams(side: Side, tokens: int, streams: int) -> None:
    start = time.perf_counter()
    found = await asyncio.gather(*(side.stream(tokens) for _ in range(streams)))
    took = time.perf_counter() - start
    side.note("first token", *(one.first for one in found))
    side.note("stream", sum(one.tokens for one in found) / took)


async def compare(bare: Side, gate: Side, options: argparse.Namespace) -> None:
    """Run all rounds; the first one warms everything up and is forgotten."""
    for number in range(options.rounds + 1):
        for side in (bare, gate) if number % 2 else (gate, bare):
            await _single(side, "GET /v1/models", side.models, options.requests)
            await _single(side, "one token", side.one_token, max(1, options.requests // 10))
            await _streams(side, options.tokens, options.streams)
            if number == 0:
                side.figures.clear()


def report(bare: Side, gate: Side) -> None:
    """Print the rows."""
    for row, values in bare.figures.items():
        ours, theirs = statistics.median(gate.figures[row]), statistics.median(values)
        if row == "stream":
            lost = 1 - ours / theirs
            print(
                f"{row:16} bare {theirs:8.1f} tokens/s   gate {ours:8.1f} tokens/s   "
                f"lost {lost:+7.1%}  (at most {MOST_LOST:.0%})"
            )
            continue
        print(
            f"{row:16} bare {theirs * 1e3:8.2f} ms p50     gate {ours * 1e3:8.2f} ms p50     "
            f"adds {(ours - theirs) * 1e3:+6.2f} ms  (at most {MOST_ADDED * 1e3:.0f})"
        )


async def run(options: argparse.Namespace) -> None:
    """Start a runtime and its gate and compare both ways to it."""
    with tempfile.TemporaryDirectory(prefix="gate-bench-") as name:
        folder = Path(name)
        lean = ("--no-ui", "--no-slots", "--cache-ram", "0", "--ctx-checkpoints", "0", "--fit", "off")
        parallel = ("--parallel", str(options.streams), "--no-kv-unified", "--threads", str(options.threads))
        async with (
            Llama(gemma.fetch(), folder / "llama.log", *lean, *parallel) as llama,
            RunningGate(folder, llama.port, keys={"token": KEY}) as gate,
            aiohttp.ClientSession() as session,
        ):
            bare, behind = Side(session, llama.port), Side(session, gate.port)
            await compare(bare, behind, options)
            report(bare, behind)


def main() -> int:
    """Run the comparison."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--requests", type=int, default=100, help="single requests of a round")
    parser.add_argument("--tokens", type=int, default=64, help="of each stream")
    parser.add_argument("--streams", type=int, default=2, help="at once")
    parser.add_argument(
        "--threads", type=int, default=1, help="of the runtime; the rest is for client and gate"
    )
    asyncio.run(run(parser.parse_args()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
