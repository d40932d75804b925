"""A user's way through an installed module: orders, uploads, phases; and what happens on the node."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from images import busyboximage
from tools.installation import NAMESPACE, CommandFailed

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.kit.cluster import Platform

STEP = 0.01
#: rest per time that a look takes: those who look must not slow down what they wait for
REST = 2


def order(platform: Platform, namespace: str, name: str) -> None:
    """Create a Model to be uploaded and wait until it asks for its bytes."""
    manifest = {
        "apiVersion": "ai.deckhouse.io/v1alpha1",
        "kind": "Model",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"source": {"upload": {}}},
    }
    platform.target.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))
    phase(platform, namespace, name, "WaitForUpload")


def phase(platform: Platform, namespace: str, name: str, wanted: str, within: int = 90) -> dict[str, Any]:
    """Wait for a phase and return the object."""
    path = f"--for=jsonpath={{.status.phase}}={wanted}"
    wait = ("wait", f"model/{name}", path, f"--timeout={within}s")
    platform.target.kubectl("-n", namespace, *wait, timeout=within + 10)
    found: dict[str, Any] = platform.target.get("-n", namespace, "model", name)
    return found


def address(platform: Platform, namespace: str, name: str, folder: Path) -> tuple[str, str, Path]:
    """Return where the upload goes, its token, and a file with the authority to trust."""
    secret = phase(platform, namespace, name, "WaitForUpload")["status"]["upload"]["secretName"]
    data = platform.target.get("-n", namespace, "secret", secret)["data"]
    values = {key: base64.b64decode(value).decode() for key, value in data.items()}
    authority = folder / f"{name}-ca.crt"
    authority.write_text(values["ca.crt"])
    return values["url"], values["token"], authority


def curl(*arguments: str, authority: Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run curl, trusting only that authority."""
    command = ["curl", "-sS", "--cacert", str(authority), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=check, timeout=120)


def aictl_upload(platform: Platform, namespace: str, name: str, file: Path) -> subprocess.Popen[str]:
    """Begin an upload with the project's own client, which goes on after interruptions."""
    words = [str(Path(sys.executable).with_name("aictl")), "upload", name, str(file), "-n", namespace]
    return subprocess.Popen(
        [*words, "--kubeconfig", str(platform.target.kubeconfig)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def reader(namespace: str, model: str) -> dict[str, Any]:
    """Return a Deployment that needs a model and does nothing with it."""
    container = {
        "name": "reader",
        "image": busyboximage.REFERENCE,
        "command": ["sh", "-c", f"test -s /data/modelcache/models/{model}/{model}.gguf && exec sleep 3600"],
    }
    labels = {"app": "reader"}
    metadata = {"name": "reader", "namespace": namespace, "annotations": {"ai.deckhouse.io/model": model}}
    pod = {"containers": [container], "terminationGracePeriodSeconds": 0}
    template = {"metadata": {"labels": labels}, "spec": pod}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def until(look: Callable[[], Any], within: float, what: str) -> Any:
    """Return the first true answer; AssertionError when none comes in time."""
    deadline = time.monotonic() + within
    while True:
        begun = time.monotonic()
        found = look()
        if found:
            return found
        assert time.monotonic() < deadline, f"not within {within} s: {what}"
        rest(begun)


def rest(begun: float) -> None:
    """Pause after a look: the longer, the longer it took."""
    time.sleep(max(STEP, REST * (time.monotonic() - begun)))


def gone(platform: Platform, *what: str) -> bool:
    """Tell whether an object is not there."""
    with suppress(CommandFailed):
        platform.target.kubectl("get", *what)
        return False
    return True


def processes(*words: str) -> list[int]:
    """Return the ids of this machine's processes, those in Pods too, whose command line has these words."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(OSError):
                arguments = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
                in_pod = "devcluster" in (entry / "cgroup").read_text()
                if in_pod and all(word in arguments for word in words):
                    found.append(int(entry.name))
    return found


def kill(*words: str) -> None:
    """End the one process in a Pod with these words by SIGKILL."""
    for pid in processes(*words):
        os.kill(pid, signal.SIGKILL)


class Counters:
    """DMCR's counters, read through the Service's address, which the node's machine reaches."""

    def __init__(self, platform: Platform) -> None:
        ip = platform.target.get("-n", NAMESPACE, "service", "dmcr")["spec"]["clusterIP"]
        self._url = f"https://{ip}:443/metrics"
        self._context = ssl._create_unverified_context()  # noqa: S323 - only numbers are read

    def received(self, purpose: str) -> int | None:
        """Return the bytes that arrived for a purpose since DMCR started; None while it does not answer."""
        with suppress(OSError):
            answer = urllib.request.urlopen(self._url, context=self._context, timeout=2)  # noqa: S310 - ours
            text = answer.read().decode()
            name = f'd8_ai_models_dmcr_received_bytes_total{{purpose="{purpose}"}}'
            found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
            return int(float(found[1])) if found else 0
        return None
