"""A llama.cpp server with an OpenAI-compatible API on one model.

    serve.py --model /data/modelcache/models/NAME [--port 8080]

The model is a GGUF file, or a folder with one in it; of a model in several files the first is named. Options
have the names that llama-server gives them. Served are /v1/models, /health, /v1/completions and
/v1/chat/completions, with --embedding /v1/embeddings, with --rerank /v1/rerank and /rerank, with --metrics
/metrics, until SIGTERM.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from pathlib import Path

import xllamacpp

#: beside those that are answered: requests that wait for their turn have a thread each, and nobody who asks
#: how things are may have to wait behind them
SPARE_HTTP_THREADS = 128
#: options whose value is a field's
FIELDS = {
    "port": "port",
    "ctx_size": "n_ctx",
    "parallel": "n_parallel",
    "batch_size": "n_batch",
    "ubatch_size": "n_ubatch",
    "cache_ram": "cache_ram_mib",
    "ctx_checkpoints": "n_ctx_checkpoints",
    "kv_unified": "kv_unified",
    "ui": "ui",
    "slots": "endpoint_slots",
    "metrics": "endpoint_metrics",
}
CACHE_TYPES = ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")
FLASH_ATTENTION = {
    "auto": xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_AUTO,
    "on": xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_ENABLED,
    "off": xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED,
}
POOLING = {
    "none": xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_NONE,
    "mean": xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN,
    "cls": xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_CLS,
    "last": xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_LAST,
    "rank": xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_RANK,
}


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
    try:
        server = xllamacpp.Server(_parameters(options, model))
    except (RuntimeError, ValueError) as error:
        print(f"error: {model} cannot be served: {error}", file=sys.stderr)
        return 1
    print(f"{options.alias} is served on {server.listening_address}", flush=True)
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
    parameters.model_alias = {options.alias}
    parameters.hostnames = [options.host]
    for option, field in FIELDS.items():
        value = getattr(options, option)
        if value is not None:
            setattr(parameters, field, value)
    parameters.cpuparams.n_threads = options.threads
    parameters.cpuparams_batch.n_threads = options.threads_batch or options.threads
    parameters.n_threads_http = options.threads_http or options.parallel + SPARE_HTTP_THREADS
    parameters.fit_params = options.fit == "on"
    for option in ("cache_type_k", "cache_type_v"):
        name = getattr(options, option)
        if name:
            setattr(parameters, option, xllamacpp.ggml_type[f"GGML_TYPE_{name.upper()}"])
    parameters.flash_attn_type = FLASH_ATTENTION[options.flash_attn]
    parameters.embedding = options.embedding or options.rerank
    if options.rerank or options.pooling:
        parameters.pooling_type = POOLING["rank" if options.rerank else options.pooling]
    return parameters


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    add, flag = parser.add_argument, argparse.BooleanOptionalAction
    add("--model", type=Path, required=True, help="a GGUF file or a folder with one")
    add("--alias", "--name", help="the model's name in the API (default: the last part of the path)")
    add("--host", default="0.0.0.0", help="address to listen on (default: all)")  # noqa: S104
    add("--port", type=int, default=8080, help="port to listen on (default: 8080)")
    add("--ctx-size", "--context", type=int, default=2048, help="tokens of all requests (default: 2048)")
    add("--parallel", type=int, default=1, help="requests at a time (default: 1)")
    cores = len(os.sched_getaffinity(0))
    add("--threads", type=int, default=cores, help="threads (default: one per core)")
    add("--threads-batch", type=int, help="threads that read prompts (default: as --threads)")
    add("--threads-http", type=int, help="connections at a time (default: more than --parallel)")
    add("--batch-size", type=int)
    add("--ubatch-size", type=int)
    add("--cache-ram", type=int, help="MiB of prompts kept")
    add("--ctx-checkpoints", type=int, help="states kept of a request")
    add("--cache-type-k", choices=CACHE_TYPES)
    add("--cache-type-v", choices=CACHE_TYPES)
    add("--flash-attn", choices=FLASH_ATTENTION, default="auto")
    add("--fit", choices=("on", "off"), default="on", help="whether sizes are cut to the memory there is")
    add("--kv-unified", action=flag, help="one cache for all requests")
    add("--ui", action=flag)
    add("--slots", action=flag)
    add("--metrics", action="store_true", help="serve /metrics")
    add("--embedding", "--embeddings", action="store_true", help="serve /v1/embeddings")
    add("--pooling", choices=POOLING)
    add("--rerank", "--reranking", action="store_true", help="serve /rerank and /v1/rerank")
    options = parser.parse_args()
    options.alias = options.alias or options.model.stem
    return options


if __name__ == "__main__":
    sys.exit(main())
