"""The chart's admission policy against a real API server: a model of another namespace is not ordered."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from aiinference.api.orders import InferenceService
from kubekit.client import Client, connect
from kubekit.errors import Invalid
from kubekit.resources import custom
from tests.kit import helm
from tests.kit.eventually import eventually
from tests.kit.inferenceapi import CHART, HUB, MODEL, elsewhere, is_bounded, order, until_unbounded
from tests.kit.modelsapi import install_definitions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from kubekit.resources import Kind

GROUP = "admissionregistration.k8s.io"
POLICY = custom(GROUP, "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", namespaced=False)
BINDING = custom(
    GROUP, "v1", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", namespaced=False
)
NAME = "ai-inference-model-namespace"
WORDS = (
    r"spec\.model\.ref\.namespace is {other}: a Model reaches workloads of its own.* in {own}; order there"
)


@pytest.fixture
async def client(control_plane: Path) -> AsyncIterator[Client]:
    async with connect(control_plane) as client:
        await install_definitions(client, CHART)
        yield client


@asynccontextmanager
async def in_force(client: Client, namespace: str) -> AsyncIterator[None]:
    """Put the policy into force and wait until it is."""
    rendered = helm.render(chart=CHART)
    for kind in (POLICY, BINDING):
        await client.create(helm.one(rendered, kind.name, NAME), kind=kind)
    try:
        await eventually(lambda: is_bounded(client, namespace))
        yield
    finally:
        for kind in (BINDING, POLICY):
            await remove(client, kind)
        await until_unbounded(client)


async def remove(client: Client, kind: Kind) -> None:
    await client.request("DELETE", kind.path(name=NAME))


async def test_the_namespace_of_a_model_is_the_orders_own(client: Client, namespace: str) -> None:
    before = await client.create(order("before", namespace, elsewhere("kube-system")))
    async with in_force(client, namespace):
        await client.create(order("plain", namespace, MODEL))
        await client.create(order("own", namespace, elsewhere(namespace)))
        await client.create(order("hub", namespace, HUB))

        words = WORDS.format(other="kube-system", own=namespace)
        with pytest.raises(Invalid, match=words):
            await client.create(order("other", namespace, elsewhere("kube-system")))
        body = {"spec": {"model": {"ref": {"namespace": "kube-system"}}}}
        with pytest.raises(Invalid, match=words):
            await client.patch(InferenceService, "plain", body, namespace=namespace)

        labelled = {"metadata": {"labels": {"still": "editable"}, "finalizers": None}}
        await client.patch(InferenceService, before["metadata"]["name"], labelled, namespace=namespace)
        checked = await client.request("GET", POLICY.path(name=NAME))
        assert b"expressionWarnings" not in checked
