"""The module removed by Helm with its hooks: what stays, what nothing holds up, what comes back."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.kit.journey import aictl_upload, gone, order, phase, reader, until
from tests.kit.models import gguf_bytes
from tools import installation
from tools.installation import NAMESPACE, RELEASE

if TYPE_CHECKING:
    from tests.kit.cluster import Platform

pytestmark = [pytest.mark.root, pytest.mark.timeout(600)]

MIB = 1 << 20


@pytest.mark.disruptive
def test_removed_and_installed_again(platform: Platform, tenant: str, tmp_path: Path) -> None:
    target, file, other = platform.target, tmp_path / "kept.gguf", f"{tenant}-other"
    target.kubectl("create", "namespace", other)
    file.write_bytes(gguf_bytes(size=MIB))
    order(platform, other, "waiting")
    order(platform, tenant, "kept")
    upload = aictl_upload(platform, tenant, "kept", file)
    told, _ = upload.communicate(timeout=120)
    assert upload.returncode == 0, told
    target.kubectl("apply", "-f", "-", stdin=json.dumps(reader(tenant, "kept")))
    target.kubectl("-n", tenant, "rollout", "status", "deployment/reader", "--timeout=120s")

    platform.values = None
    told = target.helm("uninstall", RELEASE, "--namespace", NAMESPACE, "--wait", "--timeout", "180s")

    told += target.kubectl("-n", NAMESPACE, "logs", "job/ai-models-uninstall")
    assert f"a delivered model, on the claim ai-model-kept-1 in {tenant}" in told
    assert "the stored models, on the claim dmcr-data" in told
    kept = target.get("-n", tenant, "model", "kept")
    assert (kept["status"]["phase"], kept["metadata"].get("finalizers")) == ("Ready", None)
    target.kubectl("-n", tenant, "rollout", "status", "deployment/reader", "--timeout=10s")
    target.kubectl("delete", "namespace", other, "--timeout=60s")
    assert gone(platform, "namespace", other)

    platform.ensure()

    until(lambda: _finalizers(platform, tenant), 60, "the finalizer is back")
    assert phase(platform, tenant, "kept", "Ready")["status"]["artifact"] == kept["status"]["artifact"]
    target.kubectl("-n", tenant, "delete", "deployment", "reader", "--wait")
    target.kubectl("-n", tenant, "delete", "model", "kept", "--timeout=60s")
    until(lambda: gone(platform, "-n", tenant, "pvc", "ai-model-kept-1"), 60, "the delivered copy is gone")


def test_the_namespace_refuses_careless_pods(platform: Platform) -> None:
    labels = platform.target.get("namespace", NAMESPACE)["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    with pytest.raises(installation.CommandFailed, match="violates PodSecurity"):
        platform.target.kubectl("-n", NAMESPACE, "run", "careless", "--image=x", "--dry-run=server")


def test_an_upload_finds_its_way_through_the_api(platform: Platform, tenant: str, tmp_path: Path) -> None:
    order(platform, tenant, "distant")
    nowhere = json.dumps({"stringData": {"url": "https://192.0.2.1:9/v1/upload/x"}})
    platform.target.kubectl("-n", tenant, "patch", "secret", "ai-model-upload-distant", "-p", nowhere)
    file = tmp_path / "distant.gguf"
    file.write_bytes(gguf_bytes(size=20 * MIB))
    aictl = str(Path(sys.executable).with_name("aictl"))
    words = ["upload", "distant", str(file), "-n", tenant, "--kubeconfig", str(platform.target.kubeconfig)]
    done = subprocess.run([aictl, *words], capture_output=True, text=True, check=False, timeout=180)
    assert done.returncode == 0, done.stderr
    assert "going through the Kubernetes API" in done.stderr


def _finalizers(platform: Platform, namespace: str) -> list[str]:
    found: dict[str, Any] = platform.target.get("-n", namespace, "model", "kept")
    return list(found["metadata"].get("finalizers", []))
