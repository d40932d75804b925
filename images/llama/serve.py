"""A llama.cpp server with an OpenAI-compatible API on one model.

    serve.py --model /data/modelcache/models/NAME [--port 8080]

The model is a GGUF file, or a folder with one in it; of a model in several files the first is named.
Served are /v1/completions, /v1/chat/completions, /v1/models and /health, until SIGTERM.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from pathlib import Path

import xllamacpp


def main() -> int:
    """Serve until a signal says to stop."""
    options = _options()
    try:
        model = find_model(options.model)
    except FileNotFoundError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    print(f"loading {model}", flush=True)
    server = xllamacpp.Server(_parameters(options, model))
    print(f"{options.name} is served on {server.listening_address}", flush=True)
    stop.wait()
    return 0


def find_model(path: Path) -> Path:
    """Return the GGUF file to load: the path itself, or the first one in the folder."""
    if path.is_file():
        return path
    found = sorted(path.rglob("*.gguf"))
    if not found:
        raise FileNotFoundError(f"{path} is no GGUF file and holds none; check --model")
    return found[0]


def _parameters(options: argparse.Namespace, model: Path) -> xllamacpp.CommonParams:
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(model)
    parameters.model_alias = {options.name}
    parameters.hostnames = [options.host]
    parameters.port = options.port
    parameters.n_ctx = options.context
    parameters.n_parallel = options.parallel
    parameters.cpuparams.n_threads = options.threads
    parameters.cpuparams_batch.n_threads = options.threads
    return parameters


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, required=True, help="a GGUF file or a folder with one")
    parser.add_argument("--name", help="the model's name in the API (default: the last part of the path)")
    parser.add_argument("--host", default="0.0.0.0", help="address to listen on (default: all)")  # noqa: S104
    parser.add_argument("--port", type=int, default=8080, help="port to listen on (default: 8080)")
    parser.add_argument("--context", type=int, default=2048, help="tokens of context (default: 2048)")
    parser.add_argument("--parallel", type=int, default=1, help="requests at a time (default: 1)")
    parser.add_argument(
        "--threads", type=int, default=len(os.sched_getaffinity(0)), help="threads (default: one per core)"
    )
    options = parser.parse_args()
    options.name = options.name or options.model.stem
    return options


if __name__ == "__main__":
    sys.exit(main())
