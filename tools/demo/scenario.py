"""The steps of the demo, in the order in which a user takes them."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.demo import gemma
from tools.installation import CommandFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tools.demo.story import Story
    from tools.installation import Target

NAMESPACE = "ai-demo"
MODEL = "gemma"
APPLICATION = "answers"
PORT = 8080
PROMPT = "The three primary colors are red,"
TOKENS = 24
DELIVERY_SECONDS = 180
#: On the namespaces that the demo makes, and therefore may delete.
DEMO_LABEL = "ai.deckhouse.io/demo"

MANIFEST = f"""\
apiVersion: ai.deckhouse.io/v1alpha1
kind: Model
metadata:
  name: {MODEL}
  namespace: {NAMESPACE}
spec:
  source:
    upload: {{}}
"""

WORKLOAD = f"""\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {APPLICATION}
  namespace: {NAMESPACE}
  annotations:
    ai.deckhouse.io/model: {MODEL}
spec:
  selector:
    matchLabels: {{app: {APPLICATION}}}
  template:
    metadata:
      labels: {{app: {APPLICATION}}}
    spec:
      automountServiceAccountToken: false
      containers:
        - name: llama
          image: IMAGE
          args: [--model, /data/modelcache/models/{MODEL}]
          ports: [{{containerPort: {PORT}}}]
          readinessProbe:
            httpGet: {{path: /health, port: {PORT}}}
            periodSeconds: 1
"""


class DemoFailed(Exception):
    """What did not happen, and what to look at."""


def refuse_foreign(target: Target, namespaces: Sequence[str]) -> None:
    """Raise when a namespace on somebody's cluster is there and not of the demo, which deletes its own."""
    if target.directory is not None:
        return
    there = {item["metadata"]["name"]: item["metadata"] for item in target.get("namespaces")["items"]}
    for name in namespaces:
        if name in there and DEMO_LABEL not in there[name].get("labels", {}):
            raise DemoFailed(
                f"the cluster has a namespace {name} that no demo has made, and the demo would replace and "
                f"delete what is in it; use another cluster, or, if you want just that, mark it: "
                f"kubectl label namespace {name} {DEMO_LABEL}=true"
            )


def own_namespace(target: Target, name: str) -> None:
    """Make a namespace that says that it is the demo's."""
    metadata = {"name": name, "labels": {DEMO_LABEL: "true"}}
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
    target.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))


def clear(target: Target, story: Story) -> None:
    """Remove what an earlier demo has left in the cluster, so that everything is seen again."""
    if _there(target):
        story.say(f"an earlier demo's namespace {NAMESPACE} is deleted first")
        remove(target)


def remove(target: Target) -> None:
    """Delete the demo's namespace.

    What runs goes first, and then what it has used: a namespace is looked at again only after half of the
    longest time that a Pod in it may take to end, and a Pod that serves an order may take minutes.
    """
    if not _there(target):
        return
    for kinds in ("inferenceservices", "statefulsets,deployments", "pods,models,persistentvolumeclaims"):
        with suppress(CommandFailed):  # a kind may be unknown: its module may not be there yet, or no more
            words = ("delete", kinds, "--all", "--cascade=foreground", "--timeout=150s")
            target.kubectl("-n", NAMESPACE, *words, timeout=180)
    target.kubectl("delete", "namespace", NAMESPACE, "--timeout=120s", timeout=150)


def _there(target: Target) -> bool:
    return bool(target.kubectl("get", "namespace", NAMESPACE, "--ignore-not-found"))


def order(target: Target, story: Story) -> None:
    """Create the Model, as a user does, and see it wait for its bytes."""
    own_namespace(target, NAMESPACE)
    story.say(f"kubectl apply -f - <<EOF\n{MANIFEST}EOF")
    target.kubectl("apply", "-f", "-", stdin=MANIFEST)
    phase = "jsonpath={.status.phase}=WaitForUpload"
    target.kubectl("-n", NAMESPACE, "wait", f"model/{MODEL}", f"--for={phase}", "--timeout=60s")
    story.say(_columns(target))


def upload(target: Target, story: Story, path: Path) -> None:
    """Upload with the command line of the project, which shows a bar and then the phases until Ready."""
    story.say(f"aictl upload {MODEL} {path} -n {NAMESPACE}")
    command = [str(Path(sys.executable).with_name("aictl")), "upload", MODEL, str(path), "-n", NAMESPACE]
    result = subprocess.run([*command, "--kubeconfig", str(target.kubeconfig)], check=False)
    if result.returncode:
        raise DemoFailed(f"aictl upload ended with {result.returncode}; its words are above")


def facts(target: Target, story: Story) -> None:
    """Print what the catalogue found out about the model."""
    story.say(_columns(target))
    status = target.get("-n", NAMESPACE, "model", MODEL)["status"]
    story.say("\n".join(facts_of(status)))


def facts_of(status: dict[str, Any]) -> list[str]:
    """Return lines about a Ready model; what is unknown is left out."""
    artifact, resolved = status.get("artifact", {}), status.get("resolved", {})
    geometry = resolved.get("facts", {})
    found = {
        "digest": artifact.get("digest"),
        "size": artifact.get("size"),
        "format": resolved.get("format"),
        "architecture": resolved.get("architecture"),
        "parameters": resolved.get("parameterCount"),
        "quantization": resolved.get("quantization"),
        "context": resolved.get("contextWindowTokens"),
        "layers": geometry.get("layers"),
        "endpoints": ", ".join(resolved.get("supportedEndpointTypes", [])),
    }
    return [f"{name:13} {_number(value)}" for name, value in found.items() if value]


def deliver(target: Target, story: Story, image: str) -> None:
    """Run an ordinary Deployment that names the model in an annotation, and wait until it serves."""
    manifest = WORKLOAD.replace("IMAGE", image)
    story.say(f"kubectl apply -f - <<EOF\n{manifest}EOF")
    target.kubectl("apply", "-f", "-", stdin=manifest)
    limit = f"--timeout={DELIVERY_SECONDS}s"
    target.kubectl(
        "-n",
        NAMESPACE,
        "rollout",
        "status",
        f"deployment/{APPLICATION}",
        limit,
        timeout=DELIVERY_SECONDS + 30,
    )
    listing = ("exec", f"deployment/{APPLICATION}", "--", "ls", "-l", f"/data/modelcache/models/{MODEL}/")
    story.say(target.kubectl("-n", NAMESPACE, *listing))


def ask(target: Target, story: Story) -> None:
    """Ask the Deployment's Pod for a completion, through the Kubernetes API."""
    question = {"model": MODEL, "prompt": PROMPT, "max_tokens": TOKENS, "temperature": 0, "stop": "\n"}
    pods = target.get(
        "-n", NAMESPACE, "pods", "-l", f"app={APPLICATION}", "--field-selector=status.phase=Running"
    )
    names = [pod["metadata"]["name"] for pod in pods["items"] if not pod["metadata"].get("deletionTimestamp")]
    if not names:
        raise DemoFailed(f"no Pod of Deployment {APPLICATION} runs; it did a moment ago")
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/http:{names[0]}:{PORT}/proxy/v1/completions"
    answer = json.loads(target.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(question)))
    text = answer["choices"][0]["text"]
    if not text.strip():
        raise DemoFailed(f"the model answered with nothing: {answer}")
    story.say(f"{PROMPT} ...\n{PROMPT}{text}")


def fetched(story: Story) -> Path:
    """Print the model's terms, then fetch the model."""
    gemma.fetch_terms()
    story.say(gemma.terms())
    path = gemma.fetch()
    story.say(f"{path} ({path.stat().st_size / 1e6:.0f} MB), SHA-256 as published")
    return path


def _columns(target: Target) -> str:
    return f"$ kubectl -n {NAMESPACE} get models\n" + target.kubectl("-n", NAMESPACE, "get", "models")


def _number(value: Any) -> str:
    return f"{value:,}".replace(",", " ") if isinstance(value, int) else str(value)
