"""The restricted Pod security level, and what this project asks for beyond it."""

from __future__ import annotations

from typing import Any

VOLUME_KINDS = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
}
USER = 64535


def violations(template: dict[str, Any]) -> list[str]:
    """Return what keeps a Pod template from being restricted and hardened."""
    spec = template["spec"]
    pod = spec.get("securityContext", {})
    found = [f"{name} is set" for name in ("hostNetwork", "hostPID", "hostIPC") if spec.get(name)]
    found += _wrong("Pod", pod, {"runAsNonRoot": True, "runAsUser": USER, "runAsGroup": USER})
    if pod.get("seccompProfile") != {"type": "RuntimeDefault"}:
        found.append("Pod: seccompProfile is not RuntimeDefault")
    for volume in spec.get("volumes", []):
        found += [f"volume {volume['name']} is a {kind}" for kind in set(volume) - {"name"} - VOLUME_KINDS]
    if "automountServiceAccountToken" not in spec:
        found.append("Pod: automountServiceAccountToken is left to chance")
    if spec.get("enableServiceLinks") is not False:
        found.append("Pod: enableServiceLinks fills the environment with foreign names")
    for container in [*spec.get("initContainers", []), *spec["containers"]]:
        found += _container(container)
    return found


def _container(container: dict[str, Any]) -> list[str]:
    name, security = container["name"], container.get("securityContext", {})
    found = _wrong(name, security, {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True})
    if security.get("capabilities") != {"drop": ["ALL"]}:
        found.append(f"{name}: capabilities are not dropped, all and only")
    found += [
        f"{name}: {key} is set" for key in ("privileged", "runAsUser", "procMount") if security.get(key)
    ]
    found += [
        f"{name}: port {port['containerPort']} has no name"
        for port in container.get("ports", [])
        if "name" not in port
    ]
    found += [f"{name}: hostPort" for port in container.get("ports", []) if "hostPort" in port]
    requests = container.get("resources", {}).get("requests", {})
    found += [
        f"{name}: no request for {key}"
        for key in ("cpu", "memory", "ephemeral-storage")
        if key not in requests
    ]
    return found


def _wrong(where: str, given: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    return [
        f"{where}: {key} is {given.get(key)}, not {value}"
        for key, value in wanted.items()
        if given.get(key) != value
    ]
