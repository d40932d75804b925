"""The models' API on a real API server: its CRDs, users with few rights, and statuses to be shown."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import msgspec
import yaml

from kubekit.client import Client, connect
from kubekit.resources import CUSTOM_RESOURCE_DEFINITION, custom
from kubekit.resources.meta import Resource, resource
from tests.kit.eventually import eventually
from tests.kit.helm import CHART

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from aimodels.api.model import AnyModel

#: what users of a namespace may do with its models
MODEL_RIGHTS = {
    "apiGroups": ["ai.deckhouse.io"],
    "resources": ["models"],
    "verbs": ["get", "list", "create", "patch"],
}
#: the annotation that tells which text a CRD has been made of
CONTENT = "tests.deckhouse.io/content"
ROLE_BINDING = custom("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings")


@resource(
    "apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False
)
class _Definition(Resource, frozen=True, kw_only=True):
    status: dict[str, Any] = msgspec.field(default_factory=dict)


async def install_definitions(client: Client, chart: Path = CHART) -> None:
    """Apply the chart's CRDs, unless a test before has, and wait until their objects can be written."""
    for manifest in _definitions(chart):
        name = manifest["metadata"]["name"]
        if await _established(client, name, manifest["metadata"]["annotations"][CONTENT]):
            continue
        await client.patch(
            CUSTOM_RESOURCE_DEFINITION, name, manifest, content="apply", field_manager="tests", force=True
        )
        await eventually(partial(_established, client, name, manifest["metadata"]["annotations"][CONTENT]))


@cache
def _definitions(chart: Path) -> tuple[dict[str, Any], ...]:
    """Return the chart's CRDs; each carries the digest of its text."""
    return tuple(_definition(file.read_bytes()) for file in sorted((chart / "templates/crds").glob("*.yaml")))


def _definition(text: bytes) -> dict[str, Any]:
    manifest: dict[str, Any] = yaml.load(text, Loader=yaml.CSafeLoader)
    manifest["metadata"].setdefault("annotations", {})[CONTENT] = hashlib.sha256(text).hexdigest()
    return manifest


async def _established(client: Client, name: str, content: str) -> bool:
    found = await client.find(_Definition, name)
    if found is None or found.metadata.annotations.get(CONTENT) != content:
        return False
    conditions = found.status.get("conditions") or []
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)


async def user(
    kubeconfig: Path, namespace: str, name: str, rules: Sequence[dict[str, Any]], into: Path
) -> Path:
    """Make a ServiceAccount that may do what the rules say in the namespace; return its kubeconfig."""
    async with connect(kubeconfig) as client:
        place = {"namespace": namespace, "name": name}
        await client.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": place})
        role = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": place,
            "rules": list(rules),
        }
        await client.create(role)
        subjects = [{"kind": "ServiceAccount", **place}]
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
        await client.create(
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "RoleBinding",
                "metadata": place,
                "roleRef": reference,
                "subjects": subjects,
            },
            kind=ROLE_BINDING,
        )
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        token = msgspec.json.decode(await client.request("POST", path, body=request))["status"]["token"]
    return _write_config(kubeconfig, namespace, name, token, into)


def _write_config(kubeconfig: Path, namespace: str, name: str, token: str, into: Path) -> Path:
    config = yaml.safe_load(kubeconfig.read_text())
    (context,) = [one for one in config["contexts"] if one["name"] == config["current-context"]]
    context["context"] |= {"user": name, "namespace": namespace}
    config["users"] = [{"name": name, "user": {"token": token}}]
    target = into / f"{name}.kubeconfig"
    target.write_text(yaml.safe_dump(config))
    return target


class StoredStatus:
    """The status of a model as the API server holds it, to see how it is shown; no controller runs."""

    def __init__(self, client: Client, kind: type[AnyModel], name: str, namespace: str | None) -> None:
        self._client, self._kind, self._name, self._namespace = client, kind, name, namespace

    async def write(self, phase: str, reason: str, message: str = "", **status: Any) -> None:
        """Set phase, the condition Ready, and whatever else is given; None removes a field."""
        model = await self._client.get(self._kind, self._name, self._namespace)
        condition = {
            "type": "Ready",
            "status": "True" if phase == "Ready" else "False",
            "reason": reason,
            "message": message,
            "lastTransitionTime": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        body = {
            "observedGeneration": model.metadata.generation,
            "phase": phase,
            "conditions": [condition],
            "observedSource": {"type": "upload"},
            **status,
        }
        await self._client.patch(
            self._kind, self._name, {"status": body}, namespace=self._namespace, subresource="status"
        )
