"""The chart's policy about the controller itself: which Secrets and Roles it may write elsewhere."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from aiinference.workload import names
from kubekit.client import Client, connect
from kubekit.errors import Invalid
from kubekit.resources import Role, Secret, custom
from tests.kit import helm
from tests.kit.controlplane import fresh_namespace
from tests.kit.eventually import eventually
from tests.kit.inferenceapi import CHART
from tests.kit.inferencecontroller import entitled

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

GROUP = "admissionregistration.k8s.io"
KINDS = [
    custom(GROUP, "v1", kind, plural, namespaced=False)
    for kind, plural in (
        ("ValidatingAdmissionPolicy", "validatingadmissionpolicies"),
        ("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"),
    )
]


@pytest.fixture
def elsewhere(control_plane: Path) -> Iterator[str]:
    with fresh_namespace(control_plane) as name:
        yield name


@pytest.fixture
async def admin(control_plane: Path) -> AsyncIterator[Client]:
    async with connect(control_plane) as client:
        yield client


@pytest.fixture
async def controller(
    admin: Client, control_plane: Path, namespace: str, elsewhere: str, tmp_path: Path
) -> AsyncIterator[Client]:
    """Return a client with the account and rights of a controller in ``namespace``, under the policy."""
    rendered = helm.render(chart=CHART)
    for kind in KINDS:
        found = yaml.safe_dump(helm.one(rendered, kind.name, "ai-inference-controller"))
        await admin.create(yaml.safe_load(found.replace("d8-ai-inference", namespace)), kind=kind)
    try:
        async with entitled(control_plane, namespace, tmp_path) as kubeconfig, connect(kubeconfig) as client:

            async def refuses() -> bool:
                try:
                    await client.create(secret("early", elsewhere), dry_run=True)
                except Invalid:
                    return True
                return False

            await eventually(refuses)
            yield client
    finally:
        for kind in reversed(KINDS):
            await admin.request("DELETE", kind.path(name="ai-inference-controller"))


def secret(name: str, namespace: str, **labels: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque"}


MANAGED = {names.MANAGED_LABEL: "true"}


def reader(namespace: str, **rule: Any) -> dict[str, Any]:
    whole = {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["llm-auth"], "verbs": ["get"]}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "llm-auth-reader", "namespace": namespace, "labels": MANAGED},
        "rules": [whole | rule],
    }


async def test_the_controller_is_held_to_the_form_of_what_it_writes(
    controller: Client, admin: Client, namespace: str, elsewhere: str
) -> None:
    await controller.create(secret("llm-auth", elsewhere, **MANAGED))
    await controller.patch(Secret, "llm-auth", {"stringData": {"token": "new"}}, namespace=elsewhere)
    await controller.create(reader(elsewhere))
    await controller.create(secret("anything", namespace))

    for wrong in (
        secret("other", elsewhere, **MANAGED),
        secret("other-auth", elsewhere),
        secret("other-auth", elsewhere, **MANAGED) | {"type": "example.com/other"},
    ):
        with pytest.raises(Invalid, match="the controller of ai-inference writes"):
            await controller.create(wrong)
    await admin.create(secret("theirs-auth", elsewhere))
    taken_over = {"metadata": {"labels": MANAGED}}
    with pytest.raises(Invalid, match="with its own label only"):
        await controller.patch(Secret, "theirs-auth", taken_over, namespace=elsewhere)

    wider_rules: list[dict[str, list[str]]] = [
        {"resourceNames": ["theirs-auth"]},
        {"resourceNames": []},
        {"resources": ["secrets", "pods"]},
    ]
    for rule in wider_rules:
        wider = copy.deepcopy(reader(elsewhere, **rule))
        wider["metadata"]["name"] = "wider-auth-reader"
        with pytest.raises(Invalid, match="Roles that read the Secret"):
            await controller.create(wider)
    await admin.create(reader(elsewhere) | {"metadata": {"name": "theirs", "namespace": elsewhere}})
    with pytest.raises(Invalid, match="with its own label only"):
        await controller.delete(Role, "theirs", elsewhere)
    await controller.delete(Role, "llm-auth-reader", elsewhere)
