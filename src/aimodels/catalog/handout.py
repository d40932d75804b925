"""What a user is handed for an upload: the Secret with address, token and trust, and the Role that reads it.

What belongs here: the two manifests, and whether a Secret still says what it should. What does not: when they
are made (``uploads``) or written (``act``).
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aimodels.catalog import names

if TYPE_CHECKING:
    from collections.abc import Callable

    from aimodels.api.model import AnyModel
    from aimodels.catalog.names import Key
    from kubekit.resources import Secret

GATEWAY = "ai-models-upload-gateway"
_GATEWAY_PORT = 8443
_UPLOAD_PATH = "/v1/upload/"
TOKEN = "token"  # noqa: S105 - a name


@dataclass(frozen=True)
class UploadSettings:
    """How users reach the gateway; ``trust`` is the bundle that its certificate is checked with."""

    public_url: str
    trust: Callable[[], bytes]


class Handout:
    """Makes the manifests of this installation; its processes live in ``namespace``."""

    def __init__(self, settings: UploadSettings, namespace: str) -> None:
        self._settings = settings
        self._namespace = namespace

    def place(self, key: Key) -> str:
        """Return the namespace of Secret and Role."""
        return names.upload_namespace(key, self._namespace)

    def current(self, secret: Secret) -> bool:
        """Tell whether the Secret says how the gateway is reached and trusted now."""
        wanted = self._data(names.transfer_of(secret), secret.data.get(TOKEN, b""))
        return wanted.items() <= secret.data.items()

    def secret(self, key: Key, model: AnyModel, transfer: str, token: bytes) -> dict[str, Any]:
        """Return the Secret of an upload."""
        manifest = self._manifest("v1", "Secret", names.upload_secret(key), key, model)
        manifest["metadata"]["annotations"] = {names.TRANSFER_ANNOTATION: transfer}
        data = {name: base64.b64encode(value).decode() for name, value in self._data(transfer, token).items()}
        return manifest | {"type": "Opaque", "data": data}

    def role(self, key: Key, model: AnyModel) -> dict[str, Any]:
        """Return the Role that reads the Secret."""
        rule = {
            "apiGroups": [""],
            "resources": ["secrets"],
            "resourceNames": [names.upload_secret(key)],
            "verbs": ["get"],
        }
        api_version = "rbac.authorization.k8s.io/v1"
        return self._manifest(api_version, "Role", names.upload_role(key), key, model) | {"rules": [rule]}

    def _data(self, transfer: str, token: bytes) -> dict[str, bytes]:
        inside = f"https://{GATEWAY}.{self._namespace}.svc:{_GATEWAY_PORT}"
        outside = self._settings.public_url.rstrip("/") or inside
        data = {
            "url": f"{outside}{_UPLOAD_PATH}{transfer}".encode(),
            "inClusterUrl": f"{inside}{_UPLOAD_PATH}{transfer}".encode(),
            TOKEN: token,
        }
        trust = self._settings.trust()
        return data | {"ca.crt": trust} if trust else data

    def _manifest(self, api_version: str, kind: str, name: str, key: Key, model: AnyModel) -> dict[str, Any]:
        """Return the head of an object that goes with the model, even when we are gone."""
        owner = {
            "apiVersion": model.KIND.api_version,
            "kind": model.KIND.name,
            "name": model.metadata.name,
            "uid": model.metadata.uid,
        }
        return {
            "apiVersion": api_version,
            "kind": kind,
            "metadata": {
                "name": name,
                "namespace": self.place(key),
                "labels": dict(names.MODULE_LABEL),
                "ownerReferences": [owner],
            },
        }
