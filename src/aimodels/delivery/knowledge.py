"""What a template should mount, from what is known now: the one answer of the webhook and of the controller.

What belongs here: models and claims read from stores. What does not: changing anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aimodels.api.reasons import Phase
from aimodels.delivery import claims, references
from aimodels.delivery.names import (
    CLUSTER_MODEL,
    DELIVERED,
    FILLING,
    MODEL,
    DeliveryKey,
    Reference,
    claim_name,
    model_place,
    serial_of,
)
from aimodels.delivery.state import ModelState
from aimodels.delivery.template import Mounted, deliver, read_marker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from aimodels.api.model import AnyModel, ClusterModel, Model
    from aimodels.delivery.claims import Claim
    from kubekit.resources import PersistentVolumeClaim
    from kubekit.store import Index, Store

TARGET_INDEX = "delivery-target"
PLACE_INDEX = "delivery-place"
ROLE_INDEX = "delivery-role"


class Knowledge:
    """Models and claims, as the informers of this process show them."""

    def __init__(
        self,
        models: Store[Model],
        cluster_models: Store[ClusterModel],
        volumes: Store[PersistentVolumeClaim],
        module_namespace: str,
    ) -> None:
        """Have the store of claims carry ``claim_indexes``."""
        self._models: Mapping[str, Store[Any]] = {MODEL: models, CLUSTER_MODEL: cluster_models}
        self.volumes = volumes
        self._module_namespace = module_namespace

    def model(self, key: DeliveryKey) -> ModelState:
        """Return the state of a model; an artifact counts only while the model is Ready."""
        found: AnyModel | None = self._models[key.kind].get(key.model_namespace, key.name)
        if found is None:
            return ModelState(exists=False)
        status = found.status
        artifact = status.artifact if status is not None else None
        phase = (status.phase if status is not None else None) or ""
        ready = artifact is not None and phase == Phase.READY
        return ModelState(
            exists=True,
            phase=phase,
            digest=artifact.digest if artifact is not None and ready else None,
            size_bytes=artifact.size_bytes if artifact is not None else 0,
            deleting=found.metadata.deleting,
        )

    def claims(self, key: DeliveryKey) -> list[Claim]:
        """Return the claims of a delivery, the ones being filled included."""
        return self._read(self.volumes.by(TARGET_INDEX, str(key)))

    def fills(self) -> list[Claim]:
        """Return every claim that is being filled."""
        return self._read(self.volumes.by(ROLE_INDEX, FILLING))

    def targets(self, kind: str, namespace: str, name: str) -> set[DeliveryKey]:
        """Return the deliveries of a model that have a claim."""
        found = self.volumes.by(PLACE_INDEX, model_place(kind, namespace, name))
        return {claim.target for claim in self._read(found)}

    def read(self, claim: PersistentVolumeClaim) -> Claim | None:
        """Return what is believed of a claim."""
        return claims.read(claim, self._module_namespace)

    def _read(self, found: Iterable[PersistentVolumeClaim]) -> list[Claim]:
        return [claim for one in found if (claim := self.read(one)) is not None]

    def mounted(
        self, namespace: str, names: Iterable[Reference], *templates: Mapping[str, Any]
    ) -> list[Mounted]:
        """Return what to mount for each model; of several templates the first that lists a claim counts."""
        markers = [read_marker(template) for template in templates]
        chosen = []
        for reference in names:
            key = DeliveryKey(namespace, *reference)
            listed = next(
                (
                    serial
                    for marker in markers
                    if marker is not None
                    and (claim := marker.claim_of(reference)) is not None
                    and (serial := serial_of(reference, claim)) is not None
                ),
                None,
            )
            serial = claims.choose(listed, self.model(key).digest, self.claims(key))
            chosen.append(Mounted(reference, claim_name(reference, serial)))
        return chosen

    def template(
        self,
        namespace: str,
        annotations: Mapping[str, str],
        template: Mapping[str, Any],
        earlier: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Return the template as it should be, or raise ``InvalidReference`` or ``InvalidTemplate``."""
        names = references.parse(annotations)
        return deliver(template, self.mounted(namespace, names, template, earlier or {}))


def claim_indexes(module_namespace: str) -> dict[str, Index[PersistentVolumeClaim]]:
    """Return how claims are found: by delivery, by model, and the ones being filled."""

    def by(value: Callable[[Claim], str]) -> Index[PersistentVolumeClaim]:
        def index(claim: PersistentVolumeClaim) -> Iterable[str]:
            found = claims.read(claim, module_namespace)
            return [value(found)] if found is not None else []

        return index

    return {
        TARGET_INDEX: by(lambda claim: str(claim.target)),
        PLACE_INDEX: by(lambda claim: model_place(*claim.target.model)),
        ROLE_INDEX: by(lambda claim: FILLING if claim.filling else DELIVERED),
    }
