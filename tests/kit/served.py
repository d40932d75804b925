"""An order that answers on a real cluster: how it comes to be, and a client's program that uses it."""

from __future__ import annotations

import base64
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


def upload(platform: Platform, namespace: str) -> None:
    """Have the real model in a namespace."""
    words = [sys.executable, "-m", "aictl", "upload", MODEL, str(gemma.fetch()), "--create", "-n", namespace]
    words += ["--kubeconfig", str(platform.target.kubeconfig)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=180)
    assert done.returncode == 0, done.stdout + done.stderr


def order(platform: Platform, namespace: str, name: str = ORDER) -> None:
    """Order the model of the namespace under the class that comes with the product."""
    manifest = {
        "apiVersion": "ai.deckhouse.io/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "inferenceServiceClassName": "default-llm",
            "model": {"src": "ai-models", "ref": {"kind": "Model", "name": MODEL}},
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
def ordered(platform: Platform, namespace: str) -> Iterator[str]:
    """Give the namespace with the model uploaded and ordered, when it answers."""
    upload(platform, namespace)
    order(platform, namespace)
    wait(platform, namespace)
    yield namespace
    words = ("delete", "inferenceservice", ORDER, "--ignore-not-found", "--timeout=120s")
    platform.target.kubectl("-n", namespace, *words, timeout=130)
