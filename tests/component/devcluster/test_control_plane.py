from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from lightkube import ApiError, Client, KubeConfig
from lightkube.models.core_v1 import Container, PodSpec
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import Namespace, Pod

from tests.kit.controlplane import fresh_namespace

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.cluster


def test_a_pod_is_accepted_in_the_namespace(control_plane: Path, namespace: str) -> None:
    spec = PodSpec(containers=[Container(name="one", image="one")])
    with Client(config=KubeConfig.from_file(control_plane), namespace=namespace) as client:
        created = client.create(Pod(metadata=ObjectMeta(name="one"), spec=spec))
    assert created.spec is not None
    assert created.spec.serviceAccountName == "default"


def test_the_namespace_is_deleted_after_use(control_plane: Path) -> None:
    with Client(config=KubeConfig.from_file(control_plane)) as client:
        with fresh_namespace(control_plane) as name:
            assert client.get(Namespace, name).status is not None
        try:
            left = client.get(Namespace, name)
        except ApiError as error:
            assert error.status.code == 404
        else:
            assert left.metadata is not None
            assert left.metadata.deletionTimestamp
