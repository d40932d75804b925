"""``aictl inspect`` as a whole process: time, memory, and the ratio to the formats' own libraries.

    make bench-inspect

Files are sparse: only headers are real, so a model of 40 GB costs nothing. Each figure is the median of ten
runs after one that warms the page cache. The library reads the same header in the same run, once, as it takes
up to a hundred times longer. The ratio is of processor time, which other work disturbs least.
"""

from __future__ import annotations

import json
import os
import statistics
import struct
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

RUNS = 10
GIB = 1 << 30
AICTL = Path(sys.executable).parent / "aictl"
GGUF_PEER = "import gguf, sys; reader = gguf.GGUFReader(sys.argv[1]); len(reader.tensors)"
TENSORS_PEER = (
    "import glob, sys, safetensors\n"
    "for path in glob.glob(sys.argv[1] + '/*.safetensors') or sys.argv[1:]:\n"
    "    with safetensors.safe_open(path, 'np') as file: [file.get_slice(k).get_shape() for k in file.keys()]"
)


class Figure(NamedTuple):
    """Median milliseconds by the clock and of the processor, and peak memory, of one command."""

    wall: float
    processor: float
    resident: int


def measured(*command: str | Path, runs: int = RUNS, warmups: int = 1) -> Figure:
    """Run a command several times, after some that are not counted."""
    wall, processor, resident = [], [], 0
    for number in range(warmups + runs):
        began = time.perf_counter()
        child = os.posix_spawn(
            command[0],
            [str(one) for one in command],
            os.environ,
            file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)],
        )
        _, status, usage = os.wait4(child, 0)
        elapsed = time.perf_counter() - began
        if os.waitstatus_to_exitcode(status) != 0:
            raise SystemExit(f"failed: {command}")
        if number >= warmups:
            wall.append(1000 * elapsed)
            processor.append(1000 * (usage.ru_utime + usage.ru_stime))
        resident = max(resident, usage.ru_maxrss * 1024)
    return Figure(statistics.median(wall), statistics.median(processor), resident)


def text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def sparse_gguf(path: Path, *, tokens: int, merges: int, tensors: int, size: int) -> None:
    """Write a GGUF file with a vocabulary and ``size`` bytes of weights that are a hole."""
    pairs = [
        text("general.architecture") + struct.pack("<I", 8) + text("llama"),
        text("general.file_type") + struct.pack("<II", 4, 15),
        text("llama.block_count") + struct.pack("<II", 4, 80),
        text("tokenizer.ggml.model") + struct.pack("<I", 8) + text("gpt2"),
        text("tokenizer.ggml.tokens")
        + struct.pack("<IIQ", 9, 8, tokens)
        + b"".join(text(f"tok{number}") for number in range(tokens)),
        text("tokenizer.ggml.token_type") + struct.pack("<IIQ", 9, 5, tokens) + bytes(4 * tokens),
        text("tokenizer.ggml.merges")
        + struct.pack("<IIQ", 9, 8, merges)
        + b"".join(text(f"a{number} b") for number in range(merges)),
    ]
    rows = max(size // tensors // 2048 // 32 * 32, 32)
    described = b"".join(
        text(f"blk.{number}.weight") + struct.pack("<IQQIQ", 2, 1024, rows, 1, number * rows * 2048)
        for number in range(tensors)
    )
    header = struct.pack("<4sIQQ", b"GGUF", 3, tensors, len(pairs)) + b"".join(pairs) + described
    header += bytes(-len(header) % 32)
    path.write_bytes(header)
    os.truncate(path, len(header) + tensors * rows * 2048)


def sparse_checkpoint(folder: Path, *, shards: int, tensors: int) -> None:
    """Write a checkpoint of shards that are holes behind their headers."""
    folder.mkdir()
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096}
    (folder / "config.json").write_text(json.dumps(config))
    weight_map = {}
    for shard in range(1, shards + 1):
        name = f"model-{shard:05d}-of-{shards:05d}.safetensors"
        header = {
            f"model.layers.{shard}.mlp.experts.{number}.down_proj.weight": {
                "dtype": "BF16",
                "shape": [4096, 1024],
                "data_offsets": [number << 23, (number + 1) << 23],
            }
            for number in range(tensors)
        }
        weight_map.update(dict.fromkeys(header, name))
        raw = json.dumps(header).encode()
        (folder / name).write_bytes(struct.pack("<Q", len(raw)) + raw)
        os.truncate(folder / name, 8 + len(raw) + (tensors << 23))
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))


def long_header(path: Path, *, length: int) -> None:
    """Write one Safetensors file whose header is as long as the format's own library takes."""
    described, number, left = [], 0, length - 2
    while True:
        name = f'"model.layers.{number % 61}.mlp.experts.{number}.down_proj.weight"'
        places = f"[{number << 23},{(number + 1) << 23}]"
        one = f'{name}:{{"dtype":"BF16","shape":[4096,1024],"data_offsets":{places}}}'
        left -= len(one) + 1
        if left < 0:
            break
        described.append(one)
        number += 1
    raw = f"{{{','.join(described)}}}".ljust(length).encode()
    path.write_bytes(struct.pack("<Q", length) + raw)
    os.truncate(path, 8 + length + (number << 23))


def write_all(folder: Path) -> None:
    """Write the models in a process of its own: a child's peak memory begins with its parent's."""
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        if status:
            raise SystemExit("the models could not be written")
        return
    sparse_gguf(folder / "1kB.gguf", tokens=1, merges=1, tensors=1, size=0)
    sparse_gguf(folder / "vocabulary-128k.gguf", tokens=128_256, merges=280_147, tensors=291, size=4 * GIB)
    sparse_gguf(folder / "vocabulary-262k.gguf", tokens=262_144, merges=0, tensors=1000, size=40 * GIB)
    long_header(folder / "header-100MB.safetensors", length=100_000_000)
    sparse_checkpoint(folder / "1-shard", shards=1, tensors=300)
    sparse_checkpoint(folder / "30-shards", shards=30, tensors=40)
    sparse_checkpoint(folder / "163-shards", shards=163, tensors=560)
    os._exit(0)


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_all(folder)
        start = measured(sys.executable, "-c", "import click, msgspec")
        least = measured(AICTL, "inspect", "--json", folder / "1kB.gguf")
        wall: dict[str, float] = {}
        print(f"{'':<26}{'size':>10}{'aictl inspect':>22}{'library':>12}{'ratio':>8}{'over 1 kB':>12}")
        print(f"{'Python and click':<26}{'':>10}{start.wall:>9.0f} ms, {start.processor:>4.0f} cpu")
        for path in sorted(folder.iterdir()):
            ours = measured(AICTL, "inspect", "--json", path)
            peer = GGUF_PEER if path.suffix == ".gguf" else TENSORS_PEER
            wall[path.name] = ours.wall
            theirs = measured(sys.executable, "-c", peer, path, runs=1, warmups=0)
            files = [path] if path.is_file() else list(path.iterdir())
            size = sum(file.stat().st_size for file in files) / GIB
            print(
                f"{path.name:<26}{size:>6.1f} GiB{ours.wall:>9.0f} ms, {ours.processor:>4.0f} cpu"
                f"{theirs.processor:>8.0f} cpu{theirs.processor / ours.processor:>7.1f}x"
                f"{(ours.resident - least.resident) / (1 << 20):>8.1f} MiB"
            )
        further = (wall["163-shards"] - wall["1-shard"]) / 162
        print(f"each further shard: {further:.2f} ms")
        print("limits: start-up for small headers, walking the vocabulary string by string for large ones,")
        print("decoding one description per tensor for checkpoints of many shards")


if __name__ == "__main__":
    main()
