"""Names of everything that the catalogue makes for a model, and the way back from a name to the model.

What belongs here: names and labels. What does not: the objects.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from aimodels.api.model import GROUP, ClusterModel, Model
from modelkit.names import repository as repository_name

if TYPE_CHECKING:
    from aimodels.api.model import AnyModel
    from kubekit.resources import Secret

#: longest name of an object
_OBJECT_LIMIT = 253
_HASH_LENGTH = 10

MODULE_LABEL = {"module": "ai-models"}
UID_LABEL = f"{GROUP}/model-uid"
APP_LABEL = "app"
PUBLICATION_APP = "ai-models-publication"
TRANSFER_ANNOTATION = f"{GROUP}/transfer"
MODEL_ANNOTATION = f"{GROUP}/model"

UPLOAD_TAG, PUBLISHED_TAG = "upload", "published"

#: with what the ids of our transfers begin
TRANSFERS = ("upload-", "publish-")
_UPLOAD = re.compile(r"upload-(?P<uid>.+)-g(?P<generation>\d+)-(?P<serial>[0-9a-z]+)\Z")
_PUBLICATION = re.compile(r"publish-(?P<uid>.+)-g(?P<generation>\d+)-a(?P<attempt>\d+)\Z")


class Key(NamedTuple):
    """A model: its kind, its namespace (empty for a ClusterModel) and its name."""

    kind: str
    namespace: str
    name: str

    @classmethod
    def of(cls, model: AnyModel) -> Key:
        """Return the key of an object."""
        return cls(model.KIND.name, model.metadata.namespace, model.metadata.name)

    @property
    def struct(self) -> type[AnyModel]:
        """Return the Struct of the kind."""
        return ClusterModel if self.kind == ClusterModel.KIND.name else Model

    def __str__(self) -> str:
        """Return the model as a person writes it."""
        place = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {place}"


def repository(key: Key) -> str:
    """Return the model's repository at DMCR."""
    return repository_name(key.namespace or None, key.name)


def upload_namespace(key: Key, module_namespace: str) -> str:
    """Return where the upload's Secret and Role live: beside the model, or with us for a ClusterModel."""
    return key.namespace or module_namespace


def upload_secret(key: Key) -> str:
    """Return the name of the Secret with the upload's address and token."""
    return _bounded(f"ai-{key.kind.lower()}-upload-", key.name)


def upload_role(key: Key) -> str:
    """Return the name of the Role that reads that one Secret."""
    return _bounded(f"ai-{key.kind.lower()}-upload-reader-", key.name)


def upload_transfer(uid: str, generation: int, serial: str) -> str:
    """Return the id of an upload's transfer; every issue has another serial."""
    return f"upload-{uid}-g{generation}-{serial}"


def publication_transfer(uid: str, generation: int, attempt: int) -> str:
    """Return the id of a publication attempt's transfer."""
    return f"publish-{uid}-g{generation}-a{attempt}"


def publication_job(uid: str, generation: int, attempt: int) -> str:
    """Return the name of a publication attempt's Job."""
    return f"{publication_pods(uid)}-g{generation}-a{attempt}"


def publication_pods(uid: str) -> str:
    """Return with what the names of a model's publication Pods begin.

    Kubernetes cuts the name of a Job when it makes a Pod's name of it, so generation and attempt may be gone.
    """
    return f"ai-model-publish-{uid}"


def transfer_of(secret: Secret) -> str:
    """Return the transfer that an upload's Secret is for; empty when it is nobody's of ours."""
    return secret.metadata.annotations.get(TRANSFER_ANNOTATION, "")


def uid_of(transfer: str) -> str | None:
    """Return the uid of the model that a transfer of ours is for; None for a transfer of others."""
    match = _UPLOAD.match(transfer) or _PUBLICATION.match(transfer)
    return match["uid"] if match else None


def generation_of(transfer: str) -> int | None:
    """Return the generation that a transfer of ours is for."""
    match = _UPLOAD.match(transfer) or _PUBLICATION.match(transfer)
    return int(match["generation"]) if match else None


def is_upload(transfer: str) -> bool:
    """Tell whether the transfer is an upload's."""
    return _UPLOAD.match(transfer) is not None


def _bounded(prefix: str, name: str) -> str:
    """Return prefix and name, the name cut and followed by a hash of the whole where it would be too long."""
    whole = prefix + name
    if len(whole) <= _OBJECT_LIMIT:
        return whole
    digest = sha256(name.encode()).hexdigest()[:_HASH_LENGTH]
    return f"{whole[: _OBJECT_LIMIT - _HASH_LENGTH - 1].rstrip('-.')}-{digest}"
