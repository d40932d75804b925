"""When a step fails: the last words of what does not work, and the command that shows more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tools.installation import CommandFailed

if TYPE_CHECKING:
    from tools.installation import Target

LOG_LINES = 12
EVENTS = 6


def explain(target: Target, namespaces: tuple[str, ...]) -> str:
    """Return what can be seen of the trouble in some namespaces; never raises for what cannot be seen."""
    parts: list[str] = []
    for namespace in namespaces:
        pods = _items(target, "pods", "-n", namespace)
        parts += [_pod(target, namespace, pod) for pod in pods if not _is_fine(pod)]
        warnings = [
            event for event in _items(target, "events", "-n", namespace) if event.get("type") == "Warning"
        ]
        if warnings:
            told = "\n".join(f"  {_event(event)}" for event in warnings[-EVENTS:])
            parts.append(
                f"Warnings in {namespace}:\n{told}\n  More: {_kubectl(target)} -n {namespace} get events"
            )
    return "\n\n".join(parts) or "Every Pod is fine; see the error above."


def _items(target: Target, *arguments: str) -> list[dict[str, Any]]:
    try:
        found: list[dict[str, Any]] = target.get(*arguments)["items"]
    except CommandFailed:
        return []
    return found


def _is_fine(pod: dict[str, Any]) -> bool:
    status = pod["status"]
    if status.get("phase") == "Succeeded":
        return True
    containers = status.get("containerStatuses", [])
    return bool(containers) and all(container["ready"] for container in containers)


def _pod(target: Target, namespace: str, pod: dict[str, Any]) -> str:
    name = pod["metadata"]["name"]
    status = pod["status"]
    told = [f"Pod {namespace}/{name} is {status.get('phase', 'Unknown')}{_reasons(status)}"]
    try:
        log = target.kubectl("-n", namespace, "logs", name, "--all-containers", f"--tail={LOG_LINES}")
    except CommandFailed:
        log = ""
    told += [f"  {line}" for line in log.splitlines()[-LOG_LINES:]]
    told.append(f"  More: {_kubectl(target)} -n {namespace} logs {name} --previous")
    told.append(f"        {_kubectl(target)} -n {namespace} describe pod {name}")
    return "\n".join(told)


def _reasons(status: dict[str, Any]) -> str:
    states = [state for one in status.get("containerStatuses", []) for state in one.get("state", {}).values()]
    conditions = [one for one in status.get("conditions", []) if one.get("status") == "False"]
    words = [
        f"{one['reason']}: {one.get('message', '')}" for one in [*states, *conditions] if one.get("reason")
    ]
    return f" ({'; '.join(dict.fromkeys(words))})" if words else ""


def _event(event: dict[str, Any]) -> str:
    about = event.get("involvedObject", {})
    return (
        f"{about.get('kind')}/{about.get('name')} {event.get('reason')}: {event.get('message', '').strip()}"
    )


def _kubectl(target: Target) -> str:
    return f"kubectl --kubeconfig {target.kubeconfig}"
