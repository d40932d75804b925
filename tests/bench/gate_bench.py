"""What the gate costs: the same real runtime, bare and behind its gate, in pairs of one run.

Rows:

* ``GET /v1/models``: a question that costs the runtime nothing.
* ``one token``: the smallest completion.
* ``first token``: time until a stream's first piece.
* ``stream``: tokens a second over all streams at once.

What the machine does beside changes faster than a few per cent, and far more than a gate costs. So the two
ways are asked one right after the other, in an order drawn anew for each pair, and what is judged is the
median of the differences with its interval of confidence of 95 % (by ranks: no distribution is assumed).
A bound holds when the whole interval is below it, is broken when the whole interval is above, and is open
otherwise: a longer run decides.

    .venv/bin/python tests/bench/gate_bench.py [--seconds 150] [--tokens 48] [--streams 2]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import random
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
    from collections.abc import Awaitable, Sequence

HEADERS = {"Authorization": f"Bearer {KEY}"}
MOST_ADDED = 1e-3
MOST_LOST = 0.05
MODELS_OF_A_ROUND, TOKENS_OF_A_ROUND = 50, 8
NORMAL_95 = 1.96
#: with fewer even the whole range is no interval of 95 %
FEWEST = 6
_HALF = 0.5


class Stream(NamedTuple):
    """One streamed answer."""

    first: float
    tokens: int


class Side:
    """One of the two ways to the runtime."""

    def __init__(self, session: aiohttp.ClientSession, port: int) -> None:
        self._session = session
        self._url = f"http://127.0.0.1:{port}"

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
            "prompt": "One,",
            "max_tokens": tokens,
            "temperature": 0,
            "ignore_eos": True,
            "stream": stream,
        }
        return self._session.post(f"{self._url}/v1/completions", data=json.dumps(body), headers=HEADERS)


Pairs = dict[str, list[tuple[float, float]]]


async def _pair(pairs: Pairs, row: str, bare: Awaitable[float], gate: Awaitable[float]) -> None:
    """Do both, the one that comes first drawn by chance."""
    if random.random() < _HALF:
        first = await bare
        pairs.setdefault(row, []).append((first, await gate))
    else:
        first = await gate
        pairs.setdefault(row, []).append((await bare, first))


async def _streams(pairs: Pairs, bare: Side, gate: Side, tokens: int, streams: int) -> None:
    found: dict[Side, tuple[float, float]] = {}
    sides = [bare, gate]
    random.shuffle(sides)
    for side in sides:
        start = time.perf_counter()
        several = await asyncio.gather(*(side.stream(tokens) for _ in range(streams)))
        speed = sum(one.tokens for one in several) / (time.perf_counter() - start)
        found[side] = statistics.mean(one.first for one in several), speed
    for row, of_bare, of_gate in zip(("first token", "stream"), found[bare], found[gate], strict=True):
        pairs.setdefault(row, []).append((of_bare, of_gate))


async def _round(bare: Side, gate: Side, options: argparse.Namespace) -> Pairs:
    pairs: Pairs = {}
    for _ in range(MODELS_OF_A_ROUND):
        await _pair(pairs, "GET /v1/models", bare.models(), gate.models())
    for _ in range(TOKENS_OF_A_ROUND):
        await _pair(pairs, "one token", bare.one_token(), gate.one_token())
    await _streams(pairs, bare, gate, options.tokens, options.streams)
    return pairs


async def compare(bare: Side, gate: Side, options: argparse.Namespace) -> Pairs:
    """Ask in rounds of all rows until the time is over; the first round warms up and is forgotten."""
    warm = await _round(bare, gate, options)
    pairs: Pairs = {row: [] for row in warm}
    end = time.monotonic() + options.seconds
    while not pairs["stream"] or time.monotonic() < end:
        for row, found in (await _round(bare, gate, options)).items():
            pairs[row] += found
    return pairs


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the median and the bounds between which it lies with a confidence of 95 %."""
    ranked, many = sorted(values), len(values)
    if many < FEWEST:
        return statistics.median(ranked), -math.inf, math.inf
    aside = NORMAL_95 * math.sqrt(many) / 2
    low, high = math.floor(many / 2 - aside), math.ceil(many / 2 + aside)
    return statistics.median(ranked), ranked[max(0, low)], ranked[min(many - 1, high)]


def _verdict(low: float, high: float, bound: float) -> str:
    if high <= bound:
        return "holds"
    return "broken" if low > bound else "open"


def report(pairs: Pairs) -> None:
    """Print the rows."""
    for row, found in pairs.items():
        bare = statistics.median(one for one, _ in found)
        if row == "stream":
            lost, low, high = interval([1 - gate / one for one, gate in found])
            print(
                f"{row:15} bare {bare:8.1f} tokens/s  the gate loses {lost:+6.1%} [{low:+.1%}, {high:+.1%}]"
                f"  of {len(found)} pairs; at most {MOST_LOST:.0%}: {_verdict(low, high, MOST_LOST)}"
            )
            continue
        added, low, high = interval([gate - one for one, gate in found])
        print(
            f"{row:15} bare {bare * 1e3:8.2f} ms p50    the gate adds {added * 1e3:+6.2f} ms "
            f"[{low * 1e3:+.2f}, {high * 1e3:+.2f}]  of {len(found)} pairs; at most "
            f"{MOST_ADDED * 1e3:.0f} ms: {_verdict(low, high, MOST_ADDED)}"
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
            report(await compare(Side(session, llama.port), Side(session, gate.port), options))


def main() -> int:
    """Run the comparison."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=150, help="how long to ask")
    parser.add_argument("--tokens", type=int, default=48, help="of each stream")
    parser.add_argument("--streams", type=int, default=2, help="at once")
    parser.add_argument(
        "--threads", type=int, default=1, help="of the runtime; the rest is for client and gate"
    )
    asyncio.run(run(parser.parse_args()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
