"""An order on a real cluster: the uploaded model answers who has the key, until the very end."""

from __future__ import annotations

import base64
import http.client
import json
import subprocess
import sys
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tools.demo import gemma
from tools.installation import INFERENCE_NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from tests.kit.cluster import Platform

pytestmark = [pytest.mark.root, pytest.mark.timeout(600)]

ORDER, MODEL = "chat", "gemma"
CHAT = "/v1/chat/completions"


class Client:
    """A user's program in the cluster: knows the Service's address and, perhaps, the key."""

    def __init__(self, platform: Platform, namespace: str) -> None:
        get = platform.target.get
        status = get("-n", namespace, "inferenceservice", ORDER)["status"]
        secret = get("-n", namespace, "secret", status["authSecretName"])
        self.key = base64.b64decode(secret["data"]["token"]).decode()
        self._address = get("-n", namespace, "service", ORDER)["spec"]["clusterIP"]

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


@pytest.fixture
def ordered(inference: Platform, tenant: str) -> Iterator[str]:
    """Return a namespace in which a real model was uploaded and ordered, and answers."""
    _upload(inference, tenant)
    manifest = {
        "apiVersion": "ai.deckhouse.io/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"name": ORDER, "namespace": tenant},
        "spec": {
            "inferenceServiceClassName": "default-llm",
            "model": {"src": "ai-models", "ref": {"kind": "Model", "name": MODEL}},
        },
    }
    inference.target.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))
    _wait(inference, tenant, "inferenceservice", "--for=condition=Ready")
    yield tenant
    inference.target.kubectl("-n", tenant, "delete", "inferenceservice", ORDER, "--timeout=120s", timeout=130)


def _upload(platform: Platform, namespace: str) -> None:
    words = [sys.executable, "-m", "aictl", "upload", MODEL, str(gemma.fetch()), "--create", "-n", namespace]
    words += ["--kubeconfig", str(platform.target.kubeconfig)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=180)
    assert done.returncode == 0, done.stdout + done.stderr


def _wait(platform: Platform, namespace: str, kind: str, wanted: str, name: str = ORDER) -> None:
    wait = ("wait", f"{kind}/{name}", wanted, "--timeout=240s")
    try:
        platform.target.kubectl("-n", namespace, *wait, timeout=250)
    except Exception as error:
        told = platform.target.kubectl("-n", namespace, "get", "inferenceservices", "-o", "yaml")
        raise AssertionError(
            f"{error}\n{told}\n{platform.explain(INFERENCE_NAMESPACE, namespace)}"
        ) from error


def test_an_order_answers_who_has_its_key_and_finishes_what_it_has_begun(
    inference: Platform, ordered: str
) -> None:
    status = inference.target.get("-n", ordered, "inferenceservice", ORDER)["status"]
    assert (status["phase"], status["model"]["endpointType"]) == ("Ready", "Chat")
    assert status["resolved"]["deviceClass"] == "cpu"
    client = Client(inference, ordered)

    with client.chat("wrong-key-wrong-key-wrong") as refused:
        assert refused.status == 401
    with client.ask("/v1/embeddings", client.key, input="x") as unknown:
        assert unknown.status == 404
    with client.chat(client.key, max_tokens=4) as whole:
        assert json.loads(whole.read())["usage"]["completion_tokens"] == 4

    with client.chat(client.key, max_tokens=150, stream=True, ignore_eos=True) as stream:
        assert stream.status == 200
        assert stream.readline().startswith(b"data: {")
        inference.target.kubectl("-n", ordered, "delete", "pod", f"{ORDER}-0", "--wait=false")
        lines = [line.strip() for line in stream if line.strip()]
    assert lines[-1] == b"data: [DONE]", "the answer was cut off"
    assert len(lines) >= 150
