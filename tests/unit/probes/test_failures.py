"""Recorded ends of real runtimes and real words of kubelets, and the reason that each is."""

# ruff: noqa: E501 - recorded lines stay as they were
from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiinference.api.reasons import OrderReason
from aiinference.probes import logs
from aiinference.probes.failures import Failure, explain
from kubekit.resources import Pod

STARTUP = 600
BEGAN = datetime(2026, 1, 1, 12, tzinfo=UTC)
R = OrderReason


def _pod(**status: Any) -> Pod:
    return msgspec.convert({"metadata": {"name": "llm-0", "namespace": "team"}, "status": status}, Pod)


def _runtime(name: str = "runtime", **state: Any) -> Pod:
    status = {"name": name, "image": "registry.example/llama:1", **state}
    field = "initContainerStatuses" if name == "gate" else "containerStatuses"
    return _pod(phase="Running", **{field: [status]})


def _ended(
    tail: str = "", code: int = 1, reason: str = "Error", lasted: float = 20, restarts: int = 3
) -> Pod:
    ended = {
        "exitCode": code,
        "reason": reason,
        "message": tail,
        "startedAt": BEGAN.isoformat(),
        "finishedAt": (BEGAN + timedelta(seconds=lasted)).isoformat(),
    }
    waiting = {"reason": "CrashLoopBackOff", "message": "back-off 40s restarting failed container"}
    return _runtime(state={"waiting": waiting}, lastState={"terminated": ended}, restartCount=restarts)


def _waiting(reason: str, message: str, name: str = "runtime") -> Pod:
    return _runtime(name, state={"waiting": {"reason": reason, "message": message}})


def _unscheduled(message: str) -> Pod:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return _pod(phase="Pending", conditions=[condition])


VLLM_OOM = """\
(EngineCore_DP0 pid=93) ERROR 11-02 09:14:55 [core.py:708] EngineCore failed to start.
(EngineCore_DP0 pid=93) ERROR 11-02 09:14:55 [core.py:708] Traceback (most recent call last):
(EngineCore_DP0 pid=93) ERROR 11-02 09:14:55 [core.py:708] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.
(APIServer pid=1)   File "/usr/lib/python3.12/site-packages/vllm/v1/engine/utils.py", line 644, in wait_for_engine_startup
(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
"""
VLLM_KV = """\
ValueError: To serve at least one request with the models's max seq len (131072), (16.00 GiB KV cache is needed, which is larger than the available KV cache memory (9.53 GiB). Based on the available memory, the estimated maximum model length is 78064.
RuntimeError: Engine core initialization failed. See root cause above.
"""
VLLM_ARGUMENT = """\
usage: api_server.py [-h] [--host HOST] [--port PORT]
                     [--model MODEL]
api_server.py: error: unrecognized arguments: --enable-turbo
"""
VLLM_CHOICE = (
    "api_server.py: error: argument --dtype: invalid choice: 'float12' (choose from 'auto', 'half')\n"
)
LLAMA_ARGUMENT = 'error while handling argument "--cache-type-k": Unsupported cache type: q9\n\nusage:\n--cache-type-k TYPE\n'
LLAMA_UNKNOWN = "error: invalid argument: --turbo\n"
SERVE_ARGUMENT = "usage: serve.py [-h] --model MODEL\nserve.py: error: unrecognized arguments: --bogus\n"
LLAMA_BAD_FILE = """\
0.00.023.008 E gguf_init_from_file: invalid magic characters: 'notg', expected 'GGUF'
0.00.023.009 E srv    load_model: failed to load model, '/data/modelcache/models/llm/model.gguf'
0.00.023.011 I srv    operator(): operator(): cleaning up before exit...
0.00.024.315 E srv          init: exiting due to model loading error
error: /data/modelcache/models/llm/model.gguf cannot be served: Failed to init server, please check the input params.
"""
LLAMA_MEMORY = "ggml_backend_cpu_buffer_type_alloc_buffer: failed to allocate buffer of size 68719476736\nllama_init_from_model: failed to initialize the context\n"
SERVE_NOT_FOUND = "error: /data/modelcache/models/llm is no GGUF file and holds none; check --model\n"
RUST = """\
thread 'main' panicked at router/src/main.rs:12:5:
Could not start backend: missing file model.safetensors
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace
"""
CLAP = "error: unexpected argument '--turbo' found\n\nUsage: text-embeddings-router [OPTIONS]\n"
CPP = "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc\nAborted (core dumped)\n"
PYTHON = """\
Traceback (most recent call last):
  File "/opt/llama/serve.py", line 12, in <module>
    import xllamacpp
ModuleNotFoundError: No module named 'xllamacpp'
"""
COLOURED = "\x1b[32mINFO\x1b[0m starting\n\x1b[31mERROR\x1b[0m model type 'qwen9' is not supported\n"
GATED = "OSError: You are trying to access a gated repo. Access to model x is restricted.\nsys:1: ResourceWarning: resource_tracker: leaked\n"
KERNEL = "RuntimeError: CUDA error: no kernel image is available for execution on the device\n"

CASES: dict[str, tuple[Pod, R, str]] = {
    "an image that is not there": (
        _waiting("ImagePullBackOff", 'Back-off pulling image "registry.example/llama:1": not found'),
        R.IMAGE_PULL_FAILED,
        "registry.example/llama:1 cannot be fetched",
    ),
    "a registry that wants a password": (
        _waiting("ErrImagePull", "failed to authorize: 401 Unauthorized"),
        R.IMAGE_PULL_FAILED,
        "401 Unauthorized",
    ),
    "the gate's image": (
        _waiting("InvalidImageName", "couldn't parse", "gate"),
        R.IMAGE_PULL_FAILED,
        "parse",
    ),
    "a container that cannot be made": (
        _waiting("CreateContainerConfigError", 'secret "llm-auth" not found', "gate"),
        R.RUNTIME_CRASHED,
        'secret "llm-auth" not found',
    ),
    "a program that is not in the image": (
        _waiting("RunContainerError", 'exec: "/opt/none": no such file or directory'),
        R.RUNTIME_CRASHED,
        "/opt/none",
    ),
    "no room": (
        _unscheduled("0/3 nodes are available: 3 Insufficient memory. preemption: 0/3 nodes are available."),
        R.UNSCHEDULABLE,
        "3 Insufficient memory",
    ),
    "a model that is on its way": (
        _unscheduled('0/1 nodes are available: persistentvolumeclaim "ai-model-llm-1" not found.'),
        R.MODEL_DELIVERY_PENDING,
        "ai-models",
    ),
    "a cluster's model that is on its way": (
        _unscheduled('persistentvolumeclaim "ai-clustermodel-llm-1" not found'),
        R.MODEL_DELIVERY_PENDING,
        "model-delivery-blocked-reason",
    ),
    "somebody else's volume": (
        _unscheduled('persistentvolumeclaim "data" not found'),
        R.UNSCHEDULABLE,
        '"data" not found',
    ),
    "killed for memory": (_ended("loading", 137, "OOMKilled"), R.OUT_OF_MEMORY, "3 times so far"),
    "evicted for memory": (
        _pod(phase="Failed", reason="Evicted", message="The node was low on resource: memory."),
        R.OUT_OF_MEMORY,
        "low on resource: memory",
    ),
    "evicted for its disk": (
        _pod(
            phase="Failed",
            reason="Evicted",
            message="Pod ephemeral local storage usage exceeds the total limit",
        ),
        R.RUNTIME_CRASHED,
        "ephemeral local storage",
    ),
    "not loaded in time": (_ended("loading", 137, lasted=600), R.STARTUP_DEADLINE_EXCEEDED, "within 600 s"),
    "ended from outside before": (_ended("loading", 137, lasted=90), R.RUNTIME_CRASHED, "exit code 137"),
    "vLLM, device full": (
        _ended(VLLM_OOM),
        R.OUT_OF_MEMORY,
        "CUDA out of memory. Tried to allocate 2.00 GiB",
    ),
    "vLLM, window too large": (_ended(VLLM_KV), R.RUNTIME_CRASHED, "16.00 GiB KV cache is needed"),
    "vLLM, unknown option": (_ended(VLLM_ARGUMENT, 2), R.INVALID_ARGUMENT, "--enable-turbo"),
    "vLLM, bad value": (_ended(VLLM_CHOICE, 2), R.INVALID_ARGUMENT, "float12"),
    "vLLM, old card": (_ended(KERNEL), R.RUNTIME_CRASHED, "no kernel image is available"),
    "vLLM, gated model": (_ended(GATED), R.RUNTIME_CRASHED, "gated repo"),
    "llama.cpp, bad value": (_ended(LLAMA_ARGUMENT), R.INVALID_ARGUMENT, "--cache-type-k"),
    "llama.cpp, unknown option": (_ended(LLAMA_UNKNOWN), R.INVALID_ARGUMENT, "--turbo"),
    "our server, unknown option": (_ended(SERVE_ARGUMENT, 2), R.INVALID_ARGUMENT, "--bogus"),
    "our server, no model": (_ended(SERVE_NOT_FOUND, 2), R.RUNTIME_CRASHED, "holds none"),
    "llama.cpp, damaged file": (_ended(LLAMA_BAD_FILE), R.RUNTIME_CRASHED, "failed to load model"),
    "llama.cpp, no memory": (_ended(LLAMA_MEMORY), R.OUT_OF_MEMORY, "failed to"),
    "TEI, panic": (_ended(RUST, 101), R.RUNTIME_CRASHED, "missing file model.safetensors."),
    "TEI, unknown option": (_ended(CLAP, 2), R.INVALID_ARGUMENT, "--turbo"),
    "C++, no memory": (_ended(CPP, 134), R.OUT_OF_MEMORY, "bad_alloc"),
    "Python, a module that is missing": (_ended(PYTHON), R.RUNTIME_CRASHED, "No module named 'xllamacpp'"),
    "a coloured log": (_ended(COLOURED), R.RUNTIME_CRASHED, "ERROR model type 'qwen9' is not supported"),
    "a log without a word of it": (_ended("loading\nstill loading\n"), R.RUNTIME_CRASHED, "still loading"),
    "no log at all": (_ended("", 139), R.RUNTIME_CRASHED, "exit code 139"),
    "an end that nobody asked for": (_ended("bye", 0, "Completed"), R.RUNTIME_CRASHED, "exit code 0"),
}


@pytest.mark.parametrize(("pod", "reason", "words"), CASES.values(), ids=CASES.keys())
def test_what_keeps_a_pod_from_running(pod: Pod, reason: R, words: str) -> None:
    found = explain(pod, STARTUP)
    assert found is not None
    assert found.reason == reason, found.message
    assert words in found.message
    assert found.message.startswith("Pod llm-0: ")
    assert found.message.endswith(".")
    assert len(found.message) < 1024


@pytest.mark.parametrize(
    "pod",
    [
        _pod(),
        _pod(phase="Pending", conditions=[{"type": "PodScheduled", "status": "True"}]),
        _pod(
            phase="Pending",
            conditions=[{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}],
        ),
        _waiting("ContainerCreating", ""),
        _waiting("PodInitializing", ""),
        _runtime(state={"running": {"startedAt": BEGAN.isoformat()}}, ready=False, started=False),
        _runtime(
            state={"running": {"startedAt": BEGAN.isoformat()}},
            ready=True,
            restartCount=1,
            lastState={"terminated": {"exitCode": 1, "reason": "Error"}},
        ),
        _runtime("gate", state={"terminated": {"exitCode": 0, "reason": "Completed"}}),
    ],
)
def test_a_pod_on_its_way_has_no_failure(pod: Pod) -> None:
    assert explain(pod, STARTUP) is None


def test_a_crash_is_told_while_the_next_try_runs() -> None:
    ended = {"terminated": {"exitCode": 1, "reason": "Error", "message": PYTHON}}
    pod = _runtime(state={"running": {}}, ready=False, lastState=ended, restartCount=1)
    found = explain(pod, STARTUP)
    assert found is not None
    assert (found.reason, found.container) == (R.RUNTIME_CRASHED, "runtime")


@given(st.text(max_size=3000), st.integers(0, 255))
def test_no_log_can_break_or_fill_the_status(tail: str, code: int) -> None:
    found = explain(_ended(tail, code), STARTUP)
    assert isinstance(found, Failure)
    assert len(found.message) < 1024
    assert all(letter.isprintable() for letter in found.message)


@given(st.text(max_size=500))
def test_a_meaningful_line_is_one_line_of_the_log(tail: str) -> None:
    line = logs.meaningful(tail)
    assert line == "" or line in {logs.plain(one)[:300] for one in tail.splitlines()}
