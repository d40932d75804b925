"""The part of the demo in which the uploaded model is ordered as a service and answers who has the key."""

from __future__ import annotations

import base64
import http.client
import json
import re
import subprocess
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import click

from tools.demo.scenario import MODEL, NAMESPACE, DemoFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.demo.story import Story
    from tools.installation import Target

ORDER = "chat"
QUESTION = "Which are the primary colors?"
#: This model continues texts and has not learned to chat, so it is given the beginning of its answer.
BEGINNING = "The three primary colors are red,"
TOKENS = 24
READY_SECONDS = 240
_ANSWER_SECONDS = 120
_CHAT = "/v1/chat/completions"
_OK, _UNAUTHORIZED = 200, 401
_EVENT = b"data: "

MANIFEST = f"""\
apiVersion: ai.deckhouse.io/v1alpha1
kind: InferenceService
metadata:
  name: {ORDER}
  namespace: {NAMESPACE}
spec:
  inferenceServiceClassName: default-llm
  model:
    src: ai-models
    ref: {{kind: Model, name: {MODEL}}}
"""


def order(target: Target, story: Story) -> None:
    """Order the model under the class that the module ships, and wait until it answers."""
    story.say(f"kubectl apply -f - <<EOF\n{MANIFEST}EOF")
    target.kubectl("apply", "-f", "-", stdin=MANIFEST)
    ready = ("--for=condition=Ready", f"--timeout={READY_SECONDS}s")
    target.kubectl("-n", NAMESPACE, "wait", f"inferenceservice/{ORDER}", *ready, timeout=READY_SECONDS + 30)
    story.say(target.kubectl("-n", NAMESPACE, "get", "inferenceservices"))
    status = target.get("-n", NAMESPACE, "inferenceservice", ORDER)["status"]
    story.say("\n".join(_facts(status)))


def chat(target: Target, story: Story) -> None:
    """Ask through the Service: without the key, and then with it, as a stream."""
    with _forwarded(target) as port:
        refused = _refusal(port)
        story.say(f"without a key: {refused}")
        story.say(f"with the key of Secret {ORDER}-auth: {QUESTION}")
        answer = ""
        click.echo("   ", nl=False)
        for piece in _streamed(port, key(target)):
            click.echo(piece.replace("\n", " "), nl=False)
            answer += piece
        click.echo()
    if not answer.strip():
        raise DemoFailed("the model's stream held no text")


def key(target: Target) -> str:
    """Return the key of the order, from the Secret that its status names."""
    status = target.get("-n", NAMESPACE, "inferenceservice", ORDER)["status"]
    secret = target.get("-n", NAMESPACE, "secret", status["authSecretName"])
    return base64.b64decode(secret["data"]["token"]).decode()


def _facts(status: dict[str, Any]) -> list[str]:
    seconds = status.get("startup", {}).get("seconds", {})
    found = {
        "API": status.get("model", {}).get("endpointType"),
        "placed on": status.get("resolved", {}).get("deviceClass"),
        "address": status.get("endpoint", {}).get("inClusterUrl"),
        "start": ", ".join(f"{name} {length} s" for name, length in seconds.items() if length),
    }
    return [f"{name:10} {value}" for name, value in found.items() if value]


@contextmanager
def _forwarded(target: Target) -> Iterator[int]:
    """Open a port of this machine that leads to the Service."""
    command = [str(target.kubectl_binary), "--kubeconfig", str(target.kubeconfig), "-n", NAMESPACE]
    command += ["port-forward", "--address", "127.0.0.1", f"service/{ORDER}", ":80"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = re.search(r"127\.0\.0\.1:(\d+)", line)
            if not found:
                raise DemoFailed(f"the Service cannot be reached: {line.strip()}")
            yield int(found[1])
        finally:
            process.terminate()


@contextmanager
def _ask(port: int, key: str, *, stream: bool) -> Iterator[http.client.HTTPResponse]:
    body = {
        "model": MODEL,
        "messages": [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": BEGINNING}],
        "max_tokens": TOKENS,
        "temperature": 0,
        "stop": ["\n"],
        "stream": stream,
    }
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=_ANSWER_SECONDS)) as connection:
        connection.request("POST", _CHAT, json.dumps(body), headers)
        yield connection.getresponse()


def _refusal(port: int) -> str:
    with _ask(port, "", stream=False) as answer:
        if answer.status != _UNAUTHORIZED:
            raise DemoFailed(f"a question without a key was answered with {answer.status}, not 401")
        return f"{answer.status}, {json.loads(answer.read())['error']['message']}"


def _streamed(port: int, key: str) -> Iterator[str]:
    with _ask(port, key, stream=True) as answer:
        if answer.status != _OK:
            raise DemoFailed(f"the question was answered with {answer.status}: {answer.read()[:500]!r}")
        for line in answer:
            if line.startswith(_EVENT + b"{"):
                delta = json.loads(line.removeprefix(_EVENT))["choices"][0].get("delta", {})
                yield delta.get("content") or ""
