"""An order that answers on a real cluster: how it comes to be, and a client's program that uses it."""

from __future__ import annotations

import base64
import fcntl
import http.client
import json
import subprocess
import sys
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from tools.demo import gemma
from tools.installation import INFERENCE_NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tests.kit.cluster import Platform

ORDER, MODEL = "chat", "gemma"
CHAT = "/v1/chat/completions"


class Client:
    """A user's program in the cluster: knows the Service's address and, perhaps, the key."""

    def __init__(self, platform: Platform, namespace: str, order: str = ORDER) -> None:
        get = platform.target.get
        status = get("-n", namespace, "inferenceservice", order)["status"]
        secret = get("-n", namespace, "secret", status["authSecretName"])
        self.key = base64.b64decode(secret["data"]["token"]).decode()
        self._address = get("-n", namespace, "service", order)["spec"]["clusterIP"]
        #: what OpenAI's own client is given
        self.url = f"http://{self._address}/v1"

    @contextmanager
    def ask(self, path: str, key: str, **body: Any) -> Iterator[http.client.HTTPResponse]:
        """Ask at port 80 of the Service."""
        with closing(http.client.HTTPConnection(self._address, 80, timeout=120)) as connection:
            headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
            connection.request("POST", path, json.dumps({"model": MODEL, **body}), headers)
            yield connection.getresponse()

    def chat(self, key: str, **more: Any) -> AbstractContextManager[http.client.HTTPResponse]:
        """Ask for a chat."""
        return self.ask(CHAT, key, messages=[{"role": "user", "content": "Count."}], temperature=0, **more)

    def answers(self, key: str) -> int:
        """Ask for one token and return the status of the answer."""
        with self.chat(key, max_tokens=1) as answer:
            answer.read()
            return answer.status


def upload(platform: Platform, namespace: str, name: str = MODEL, file: Path | None = None) -> None:
    """Have the real model in a namespace, or another file."""
    words = [sys.executable, "-m", "aictl", "upload", name, str(file or gemma.fetch())]
    words += ["--create", "-n", namespace, "--kubeconfig", str(platform.target.kubeconfig)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=180)
    assert done.returncode == 0, done.stdout + done.stderr


def order(
    platform: Platform,
    namespace: str,
    name: str = ORDER,
    *,
    model: str = MODEL,
    klass: str | None = "default-llm",
) -> None:
    """Order a model of the namespace under the class that comes with the product, another one, or none."""
    manifest = {
        "apiVersion": "ai.deckhouse.io/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            **({"inferenceServiceClassName": klass} if klass else {}),
            "model": {"src": "ai-models", "ref": {"kind": "Model", "name": model}},
        },
    }
    platform.target.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))


def wait(
    platform: Platform, namespace: str, wanted: str = "--for=condition=Ready", name: str = ORDER
) -> None:
    """Wait for something of an order, and say what there is when it does not come."""
    words = ("wait", f"inferenceservice/{name}", wanted, "--timeout=240s")
    try:
        platform.target.kubectl("-n", namespace, *words, timeout=250)
    except Exception as error:
        told = platform.target.kubectl("-n", namespace, "get", "inferenceservices", "-o", "yaml")
        raise AssertionError(
            f"{error}\n{told}\n{platform.explain(INFERENCE_NAMESPACE, namespace)}"
        ) from error


@contextmanager
def answering(
    platform: Platform,
    namespace: str,
    name: str = ORDER,
    *,
    model: str = MODEL,
    klass: str | None = "default-llm",
) -> Iterator[None]:
    """Have an order that answers, of a model that is there, and none afterwards.

    A replica asks for one of the node's two cores, so that orders of tests that run at a time take turns.
    """
    with platform.target.kubeconfig.with_suffix(".orders.lock").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        order(platform, namespace, name, model=model, klass=klass)
        try:
            wait(platform, namespace, name=name)
            yield
        finally:
            words = ("delete", "inferenceservice", name, "--ignore-not-found", "--timeout=120s")
            platform.target.kubectl("-n", namespace, *words, timeout=130)


@contextmanager
def ordered(platform: Platform, namespace: str) -> Iterator[str]:
    """Give the namespace with the model uploaded and ordered, when it answers."""
    upload(platform, namespace)
    with answering(platform, namespace):
        yield namespace
