from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aimodels.delivery.names import Reference, volume_name
from aimodels.delivery.template import InvalidTemplate, Marker, Mounted, deliver, read_marker

GEMMA = Mounted(Reference("Model", "gemma"), "ai-model-gemma-1")
BGE = Mounted(Reference("ClusterModel", "bge-m3"), "ai-clustermodel-bge-m3-2")


def template(**container: Any) -> dict[str, Any]:
    return {
        "metadata": {"creationTimestamp": None, "labels": {"app": "a"}},
        "spec": {"containers": [{"name": "app", "image": "i", **container}]},
    }


def test_a_model_becomes_volume_mount_variables_and_marker() -> None:
    changed = deliver(template(), [GEMMA])
    name = volume_name(GEMMA.reference)
    assert changed["spec"]["volumes"] == [
        {"name": name, "persistentVolumeClaim": {"claimName": "ai-model-gemma-1", "readOnly": True}}
    ]
    (container,) = changed["spec"]["containers"]
    assert container["volumeMounts"] == [
        {"name": name, "mountPath": "/data/modelcache/models/gemma", "subPath": "model", "readOnly": True}
    ]
    assert container["env"] == [
        {"name": "AI_MODELS_MODELS_DIR", "value": "/data/modelcache/models"},
        {
            "name": "AI_MODELS_MODELS",
            "value": '[{"name":"gemma","path":"/data/modelcache/models/gemma"}]',
        },
    ]
    assert json.loads(changed["metadata"]["annotations"]["ai.deckhouse.io/model-delivery"]) == {
        "version": 1,
        "claims": [{"kind": "Model", "name": "gemma", "claim": "ai-model-gemma-1"}],
    }
    assert changed["metadata"]["labels"] == {"app": "a"}


def test_init_containers_see_the_models_too() -> None:
    given_template = template()
    given_template["spec"]["initContainers"] = [{"name": "warm-up", "image": "i"}]
    changed = deliver(given_template, [GEMMA, BGE])
    (first,) = changed["spec"]["initContainers"]
    assert [mount["mountPath"] for mount in first["volumeMounts"]] == [
        "/data/modelcache/models/gemma",
        "/data/modelcache/models/bge-m3",
    ]
    assert [variable["name"] for variable in first["env"]] == ["AI_MODELS_MODELS_DIR", "AI_MODELS_MODELS"]


def test_what_is_the_authors_stays() -> None:
    given_template = template(
        env=[{"name": "PORT", "value": "80"}],
        volumeMounts=[{"name": "work", "mountPath": "/work"}],
        resources={"limits": {"memory": "1Gi"}},
    )
    given_template["spec"]["volumes"] = [{"name": "work", "emptyDir": {}}]
    given_template["metadata"]["annotations"] = {"theirs": "1"}
    before = copy.deepcopy(given_template)
    delivered = deliver(given_template, [GEMMA])
    assert given_template == before, "the input is not changed"
    assert delivered["spec"]["volumes"][0] == {"name": "work", "emptyDir": {}}
    assert delivered["spec"]["containers"][0]["resources"] == {"limits": {"memory": "1Gi"}}
    assert delivered["metadata"]["annotations"]["theirs"] == "1"
    assert deliver(delivered, []) == before


def test_a_set_that_shrinks_leaves_nothing_behind() -> None:
    both = deliver(template(), [GEMMA, BGE])
    assert deliver(both, [GEMMA]) == deliver(template(), [GEMMA])


def test_another_claim_changes_the_template_and_so_rolls_it() -> None:
    moved = Mounted(GEMMA.reference, "ai-model-gemma-2")
    assert deliver(deliver(template(), [GEMMA]), [moved]) == deliver(template(), [moved])


def test_a_template_without_our_marker_is_never_touched_when_nothing_is_named() -> None:
    theirs = template(env=[{"name": "AI_MODELS_MODELS", "value": "[]"}])
    assert deliver(theirs, []) == theirs


@pytest.mark.parametrize(
    "path",
    [
        "/data/modelcache/models/gemma",
        "/data/modelcache/models/gemma/",
        "/data/modelcache/models/other",
        "/data/modelcache/models/x/../gemma",
        "/data/modelcache/models",
        "/data/modelcache",
        "//data/modelcache",
        "data/modelcache",
    ],
)
def test_a_mount_where_models_go_is_refused(path: str) -> None:
    with pytest.raises(InvalidTemplate, match=r"app mounts mine at /data/modelcache"):
        deliver(template(volumeMounts=[{"name": "mine", "mountPath": path}]), [GEMMA])


@pytest.mark.parametrize("path", ["/data", "/data/modelcache-2", "/data/modelcache/logs", "/models"])
def test_other_mounts_are_fine(path: str) -> None:
    mounted = deliver(template(volumeMounts=[{"name": "mine", "mountPath": path}]), [GEMMA])
    assert len(mounted["spec"]["containers"][0]["volumeMounts"]) == 2


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": "x"}', "9" * 100_000])
def test_a_marker_that_cannot_be_read_lists_nothing(text: str) -> None:
    given_template = template()
    given_template["metadata"]["annotations"] = {"ai.deckhouse.io/model-delivery": text}
    marker = read_marker(given_template)
    assert marker is not None
    assert marker.claim_of(GEMMA.reference) is None
    assert read_marker(deliver(given_template, [GEMMA])) == Marker(
        1,
        read_marker(deliver(template(), [GEMMA])).claims,  # type: ignore[union-attr]
    )


def test_a_marker_tells_the_claim_of_each_model() -> None:
    marker = read_marker(deliver(template(), [GEMMA, BGE]))
    assert marker is not None
    assert marker.claim_of(BGE.reference) == "ai-clustermodel-bge-m3-2"
    assert marker.claim_of(Reference("Model", "bge-m3")) is None


NAMES = st.from_regex(r"[a-z0-9]{1,8}", fullmatch=True)
MOUNTS = st.lists(NAMES, unique=True, max_size=4).map(
    lambda names: [Mounted(Reference("Model", name), f"ai-model-{name}-1") for name in names]
)


@given(MOUNTS, MOUNTS)
def test_delivering_is_exact_and_repeatable(first: list[Mounted], second: list[Mounted]) -> None:
    theirs = template(env=[{"name": "A", "value": "1"}])
    once = deliver(deliver(theirs, first), second)
    assert deliver(once, second) == once
    if second:
        assert once == deliver(theirs, second)
    else:
        assert once == theirs
