"""From the annotation to a Pod that reads the model, and back: every end that a delivery can have."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from images import busyboximage
from tests.kit.journey import until
from tests.kit.models import gguf_bytes
from tools.installation import NAMESPACE, CommandFailed

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.kit.cluster import Platform

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]

MIB = 1 << 20
MODELS = "/data/modelcache/models"
#: prints what a Pod sees of its models, then tries to write
LOOK = f"""
echo "dir=$AI_MODELS_MODELS_DIR"
echo "list=$AI_MODELS_MODELS"
for model in {MODELS}/*; do
  echo "sum=$(sha256sum $model/*.gguf | cut -d' ' -f1)"
  echo "json=$(tr -d '\n' < $model/.ai-models/model.json)"
  touch $model/mine 2>/dev/null && echo WRITABLE
done
echo seen
exec sleep 100000
"""


class User:
    """A user of one namespace: uploads, deploys, looks."""

    def __init__(self, platform: Platform, namespace: str, folder: Path) -> None:
        self.kubectl = platform.target.kubectl
        self.namespace = namespace
        self._platform = platform
        self._folder = folder

    def upload(self, name: str, data: bytes) -> str:
        """Upload a model with aictl, wait until it is Ready, return the file's sha256."""
        file = self._folder / f"{name}.gguf"
        file.write_bytes(data)
        command = [sys.executable, "-m", "aictl", "upload", name, str(file), "--create"]
        options = ["-n", self.namespace, "--kubeconfig", str(self._platform.target.kubeconfig)]
        done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return hashlib.sha256(data).hexdigest()

    def deploy(self, name: str, models: str, kind: str = "Deployment") -> None:
        """Apply a workload that names models and looks at them."""
        container = {
            "name": "app",
            "image": busyboximage.REFERENCE,
            "imagePullPolicy": "IfNotPresent",
            "command": ["/bin/sh", "-c", LOOK],
        }
        spec: dict[str, Any] = {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"terminationGracePeriodSeconds": 0, "containers": [container]},
            },
        }
        if kind == "StatefulSet":
            spec["serviceName"] = name
        metadata = {"name": name, "namespace": self.namespace}
        annotations = {"ai.deckhouse.io/model": models}
        self.apply(
            {
                "apiVersion": "apps/v1",
                "kind": kind,
                "metadata": metadata | {"annotations": annotations},
                "spec": spec,
            }
        )

    def apply(self, manifest: dict[str, Any]) -> None:
        self.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))

    def seen(self, name: str) -> dict[str, list[str]]:
        """Wait until a Pod has looked at its models; return what it saw."""
        self.until(lambda: "seen" in self._logs(name), f"a Pod of {name} has looked")
        found: dict[str, list[str]] = {}
        for line in self._logs(name).splitlines():
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(value)
        return found

    def _logs(self, name: str) -> str:
        pods = self.items("pods", "-l", f"app={name}")
        ready = [pod for pod in pods if pod["status"]["phase"] == "Running"]
        with suppress(CommandFailed):  # the Pod may have been replaced meanwhile
            return self.kubectl("-n", self.namespace, "logs", ready[-1]["metadata"]["name"]) if ready else ""
        return ""

    def items(self, *arguments: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._platform.target.get("-n", self.namespace, *arguments)["items"]
        return found

    def claims(self) -> list[str]:
        """Return the names of the namespace's claims."""
        return [claim["metadata"]["name"] for claim in self.items("pvc")]

    def volumes(self) -> list[str]:
        """Return the names of the volumes that belong, or belonged, to this namespace."""
        volumes = self._platform.target.get("pv")["items"]
        claims = [(one["metadata"]["name"], one["spec"].get("claimRef", {})) for one in volumes]
        return [name for name, claim in claims if claim.get("namespace") == self.namespace]

    def until(self, look: Callable[[], object], what: str, within: float = 60) -> None:
        """Wait for something, or fail with the state of the cluster."""
        try:
            until(look, within, what)
        except AssertionError as error:
            pytest.fail(f"{error}\n{self._platform.explain(self.namespace)}")

    def phase(self, name: str) -> str:
        """Return the phase of a model; nothing when it is gone."""
        found = [one for one in self.items("models") if one["metadata"]["name"] == name]
        return str(found[0]["status"].get("phase", "Pending")) if found else ""

    def reason(self, name: str) -> str:
        """Return the reason of a model's condition Ready."""
        (found,) = [one for one in self.items("models") if one["metadata"]["name"] == name]
        (ready,) = [one for one in found["status"]["conditions"] if one["type"] == "Ready"]
        return str(ready["reason"])


@pytest.fixture
def user(platform: Platform, tenant: str, tmp_path: Path) -> User:
    return User(platform, tenant, tmp_path)


def test_workloads_read_the_models_that_they_name(user: User) -> None:
    sums = [user.upload("one", gguf_bytes(size=MIB)), user.upload("two", gguf_bytes(size=2 * MIB))]
    user.deploy("app", "one,two")
    user.deploy("state", "two", "StatefulSet")
    both = user.seen("app")
    assert both["dir"] == [MODELS]
    assert json.loads(both["list"][0]) == [
        {"name": "one", "path": f"{MODELS}/one"},
        {"name": "two", "path": f"{MODELS}/two"},
    ]
    assert both["sum"] == sums
    assert "WRITABLE" not in both
    told = json.loads(both["json"][0])
    assert told["format"] == "GGUF"
    assert told["digest"].startswith("sha256:")
    assert user.seen("state")["sum"] == sums[1:]
    assert sorted(user.claims()) == ["ai-model-one-1", "ai-model-two-1"]


def test_the_annotation_removed_leaves_nothing(user: User) -> None:
    user.upload("gemma", gguf_bytes(size=MIB))
    user.deploy("app", "gemma")
    user.seen("app")
    user.kubectl("-n", user.namespace, "annotate", "deploy/app", "ai.deckhouse.io/model-")
    user.until(lambda: not user.claims(), "the claim is gone")
    user.until(lambda: not user.volumes(), "the bytes are gone")
    (deployment,) = user.items("deployments")
    template = deployment["spec"]["template"]
    assert "volumes" not in template["spec"]
    assert "annotations" not in template["metadata"]
    assert "env" not in template["spec"]["containers"][0]


def test_a_model_in_use_waits_for_its_last_user(user: User) -> None:
    user.upload("gemma", gguf_bytes(size=MIB))
    user.deploy("app", "gemma")
    user.seen("app")
    user.kubectl("-n", user.namespace, "delete", "model", "gemma", "--wait=false")
    user.until(lambda: user.reason("gemma") == "InUse", "the model says who uses it")
    assert user.phase("gemma") == "Deleting"
    assert user.claims() == ["ai-model-gemma-1"]
    user.kubectl("-n", user.namespace, "delete", "deploy", "app")
    user.until(lambda: not user.phase("gemma"), "the model is gone", within=10)
    user.until(lambda: not user.claims(), "the claim is gone", within=10)
    user.until(lambda: not user.volumes(), "the bytes are gone")


def test_a_namespace_takes_everything_along(user: User) -> None:
    user.upload("gemma", gguf_bytes(size=MIB))
    user.deploy("app", "gemma")
    user.seen("app")
    user.kubectl("delete", "namespace", user.namespace, "--timeout=60s")
    user.until(lambda: not user.volumes(), "the bytes are gone")
    user.kubectl("create", "namespace", user.namespace)
    user.until(lambda: not copies(user), "no copy for it is left")


@pytest.mark.disruptive
@pytest.mark.parametrize("victim", ["aimodels.delivery.copy", "aimodels.processes.controller"])
def test_a_kill_in_the_middle_of_a_delivery_is_made_up_for(user: User, victim: str) -> None:
    digest = user.upload("gemma", gguf_bytes(size=64 * MIB))
    user.deploy("app", "gemma")
    user.until(lambda: processes("aimodels.delivery.copy"), "the copy runs")
    killed = processes(victim)
    assert killed
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    assert user.seen("app")["sum"] == [digest]
    user.until(lambda: not copies(user), "nothing of the copy is left")


@pytest.mark.disruptive
def test_a_killed_webhook_costs_no_workload_its_models(user: User) -> None:
    digest = user.upload("gemma", gguf_bytes(size=MIB))
    for pid in processes("aimodels.processes.api"):
        os.kill(pid, signal.SIGKILL)
    user.deploy("app", "gemma")
    user.until(lambda: user.seen("app")["sum"] == [digest], "a Pod with the model has replaced the first")


def copies(user: User) -> list[str]:
    """Return the names of claims that are being filled for the user's namespace, and of copy Jobs."""
    text = user.kubectl("-n", NAMESPACE, "get", "pvc,jobs", "-o", "json")
    target = "ai.deckhouse.io/delivery-target"
    found = [one["metadata"] for one in json.loads(text)["items"]]
    ours = f"{user.namespace}/"
    return [one["name"] for one in found if one.get("annotations", {}).get(target, "").startswith(ours)]


def processes(module: str) -> list[int]:
    """Return the processes of this machine, which is the node, that run a module."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[1:3] == [b"-m", module.encode()]:
                found.append(int(entry.name))
    return found
