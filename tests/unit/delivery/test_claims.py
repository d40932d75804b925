from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aimodels.api.reasons import DeliveryBlockedReason
from aimodels.delivery import claims, references, storageclass
from aimodels.delivery.claims import Claim
from aimodels.delivery.names import (
    DeliveryKey,
    Reference,
    claim_name,
    copy_name,
    fill_name,
    is_volume_name,
    parse_target,
    serial_of,
    serves,
    volume_name,
)
from aimodels.delivery.references import InvalidReference
from aimodels.delivery.slots import Slots
from aimodels.delivery.state import Blocked
from kubekit.resources import ObjectMeta, PersistentVolumeClaim
from tests.kit.vectors import cases

VECTORS = "delivery-and-publish.json"
KEY = DeliveryKey("ai-demo", "Model", "gemma")
NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,250}[a-z0-9])?", fullmatch=True).filter(
    lambda name: ".." not in name and ".-" not in name and "-." not in name
)


def claim(serial: int, digest: str, **changes: Any) -> Claim:
    values: dict[str, Any] = {
        "target": KEY,
        "serial": serial,
        "digest": digest,
        "storage_class": "shared",
        "requested": "1073741824",
        "namespace": KEY.namespace,
        "name": claim_name(KEY.reference, serial),
        "uid": f"uid-{serial}",
        "filling": False,
        "bound": True,
        "lost": False,
        "deleting": False,
        "volume": f"pv-{serial}",
    }
    return Claim(**values | changes)


@pytest.mark.parametrize("case", cases(VECTORS, "annotation-ok"))
def test_annotations_that_can_be_followed(case: dict[str, Any]) -> None:
    found = references.parse(annotated(case["input"]))
    assert [{"kind": one.kind, "name": one.name} for one in found] == case["expected"]["models"]


@pytest.mark.parametrize("case", cases(VECTORS, "annotation-reject"))
def test_annotations_that_cannot(case: dict[str, Any]) -> None:
    with pytest.raises(InvalidReference) as refused:
        references.parse(annotated(case["input"]))
    twice = "twice" in case["expected"]["why"]
    expected = DeliveryBlockedReason.DUPLICATE_MODEL_NAME if twice else DeliveryBlockedReason.INVALID_SPEC
    assert refused.value.reason == expected
    assert references.readable(annotated(case["input"])) == ()


@pytest.mark.parametrize("case", cases(VECTORS, "annotation-flow"))
def test_how_annotations_flowed_once(case: dict[str, Any]) -> None:
    raise AssertionError(f"{case['id']} is not skipped and nothing tests it")


def annotated(given: dict[str, str | None]) -> dict[str, str]:
    return {f"ai.deckhouse.io/{name}": value for name, value in given.items() if value is not None}


def test_spaces_and_empty_items_are_no_names() -> None:
    assert references.parse({"ai.deckhouse.io/model": " a , b,, "}) == (
        Reference("Model", "a"),
        Reference("Model", "b"),
    )


def test_more_models_than_a_pod_can_bear_are_refused() -> None:
    many = ",".join(f"m-{number}" for number in range(33))
    with pytest.raises(InvalidReference, match="at most 32"):
        references.parse({"ai.deckhouse.io/model": many})


@pytest.mark.parametrize("case", cases(VECTORS, "storage-class"))
def test_the_storage_class(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expected"]
    if "resource_quota" in given:
        pytest.skip("a quota is asked at the API server: component test of the hand-over")
    configured = [
        given["sharedPVCStorageClassName"],
        given["global_modules_storageClass"],
        given["global_defaultClusterStorageClass"],
    ]
    defaults = given["default_storage_classes"]
    chosen = next(filter(None, configured), None)
    existing = {*defaults} | ({chosen} if chosen and given["chosen_class_exists"] else set())
    found = storageclass.choose(configured, existing, defaults)
    if isinstance(found, Blocked):
        assert found.reason == expected["blocked_reason"]
        assert found.hard
    else:
        assert found == expected["storage_class"]


def test_several_default_classes_are_ambiguous_and_named() -> None:
    found = storageclass.choose([""], {"a", "b"}, ["b", "a"])
    assert isinstance(found, Blocked)
    assert found.reason == DeliveryBlockedReason.SHARED_PVC_STORAGE_CLASS_AMBIGUOUS
    assert "a, b" in found.message
    assert storageclass.choose([], {"a"}, ["a"]) == "a"


@pytest.mark.parametrize("case", cases(VECTORS, "pvc-size"))
def test_the_size_of_a_claim(case: dict[str, Any]) -> None:
    assert claims.size_for(sum(case["input"]["size_bytes"])) == case["expected"]["minimum_bytes"]


@pytest.mark.parametrize(
    ("listed", "digest", "known", "expected"),
    [
        (None, None, [], 1),
        (None, "x", [], 1),
        (3, None, [], 3),
        (None, None, [claim(2, "old")], 2),
        (None, "x", [claim(1, "x")], 1),
        (1, "x", [claim(1, "x"), claim(2, "x")], 1),
        (None, "x", [claim(1, "x"), claim(2, "x")], 2),
        (4, "x", [claim(2, "x")], 2),
        (1, "y", [claim(1, "x")], 2),
        (None, "y", [claim(1, "x")], 2),
        (1, "y", [claim(1, "x"), claim(2, "y", filling=True, bound=False)], 2),
        (1, "x", [claim(1, "x", deleting=True)], 2),
        (1, "x", [claim(1, "x", lost=True)], 2),
        (1, "x", [claim(1, "x", filling=True, lost=True)], 1),
        (2, "y", [], 2),
        (1, "y", [claim(3, "x")], 1),
        (None, "y", [claim(1, "x", deleting=True), claim(3, "x")], 4),
        (None, "y", [claim(999_999, "x"), claim(1, "x")], 2),
    ],
)
def test_the_serial(listed: int | None, digest: str | None, known: list[Claim], expected: int) -> None:
    assert claims.choose(listed, digest, known) == expected


@given(
    st.none() | st.integers(1, 5),
    st.sampled_from(["x", "y"]),
    st.lists(st.tuples(st.integers(1, 5), st.sampled_from(["x", "y"]), st.booleans()), max_size=4),
)
def test_a_chosen_name_never_holds_other_bytes(
    listed: int | None, digest: str, known: list[tuple[int, str, bool]]
) -> None:
    there = {serial: claim(serial, held, deleting=leaving) for serial, held, leaving in known}
    serial = claims.choose(listed, digest, there.values())
    if serial in there:
        assert there[serial].digest == digest
        assert not there[serial].deleting
    assert claims.choose(serial, digest, there.values()) == serial, "choosing again changes nothing"


@given(NAMES, st.sampled_from(["Model", "ClusterModel"]), st.integers(1, 999_999))
def test_a_serial_is_read_back_from_any_claims_name(name: str, kind: str, serial: int) -> None:
    reference = Reference(kind, name)
    made = claim_name(reference, serial)
    assert len(made) <= 253
    assert serial_of(reference, made) == serial
    assert is_volume_name(volume_name(reference))
    assert len(volume_name(reference)) <= 63


@pytest.mark.parametrize(
    "name",
    [
        "ai-model-gemma",
        "ai-model-gemma-0",
        "ai-model-gemma-01",
        "ai-model-gemma-\u00b2",
        "ai-model-other-1",
        "gemma-1",
        "",
        "-",
    ],
)
def test_other_names_have_no_serial(name: str) -> None:
    assert serial_of(Reference("Model", "gemma"), name) is None


def test_a_models_and_a_cluster_models_names_never_meet() -> None:
    assert claim_name(Reference("Model", "a"), 1) != claim_name(Reference("ClusterModel", "a"), 1)
    assert volume_name(Reference("Model", "a")) != volume_name(Reference("ClusterModel", "a"))
    one, other = DeliveryKey("n", "Model", "a"), DeliveryKey("n", "ClusterModel", "a")
    assert fill_name(one, 1, "x") != fill_name(other, 1, "x")


def test_a_jobs_name_leaves_room_for_its_pods() -> None:
    assert len(copy_name("0b3a4bd2-6f6c-4c0e-9a51-2d9b2b3f6c3e")) <= 57


def stored(manifest: dict[str, Any], namespace: str) -> PersistentVolumeClaim:
    metadata = manifest["metadata"]
    return PersistentVolumeClaim(
        metadata=ObjectMeta(
            name=metadata["name"],
            namespace=namespace,
            labels=metadata["labels"],
            annotations=metadata["annotations"],
        )
    )


def test_a_claim_is_read_back_from_its_manifest() -> None:
    made = claims.fill_claim(claim(3, "sha256:d"), "d8-ai-models")
    read = claims.read(stored(made, made["metadata"]["namespace"]), "d8-ai-models")
    assert read is not None
    assert (read.target, read.serial, read.digest, read.filling) == (KEY, 3, "sha256:d", True)
    assert made["spec"]["accessModes"] == ["ReadWriteMany"]


def test_labels_that_a_user_copied_are_not_believed() -> None:
    delivered = claims.user_claim(claim(3, "sha256:d"))
    filling = claims.fill_claim(claim(3, "sha256:d"), "d8-ai-models")
    assert claims.read(stored(delivered, "elsewhere"), "d8-ai-models") is None
    assert claims.read(stored(filling, KEY.namespace), "d8-ai-models") is None


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        ("claim-serial", "9" * 5000),
        ("claim-serial", "1000000"),
        ("claim-serial", "\u00b2"),
        ("claim-serial", "0"),
        ("claim-serial", "4"),
        ("delivery-target", "ai-demo/Model/other"),
        ("delivery-target", "ai-demo/Model/" + "x" * 5000),
    ],
)
def test_a_claim_that_is_not_named_by_what_it_says_is_not_believed(annotation: str, value: str) -> None:
    """Nothing that a user writes on a claim may raise: what cannot be read holds up deletions everywhere."""
    made = claims.user_claim(claim(3, "sha256:d"))
    made["metadata"]["annotations"][f"ai.deckhouse.io/{annotation}"] = value
    assert claims.read(stored(made, KEY.namespace), "d8-ai-models") is None


def test_an_unknown_role_is_not_believed() -> None:
    made = claims.user_claim(claim(3, "sha256:d"))
    made["metadata"]["labels"]["ai.deckhouse.io/claim-role"] = "else"
    assert claims.read(stored(made, KEY.namespace), "d8-ai-models") is None


def test_targets_are_written_and_read() -> None:
    assert parse_target(str(KEY)) == KEY
    for text in ("", "a/b", "a/Model/b/c", "a/Pod/b", "/Model/b", "a/Model/"):
        assert parse_target(text) is None


def test_system_namespaces_are_not_served() -> None:
    assert serves("ai-demo", "d8-ai-models")
    for namespace in ("kube-system", "d8-monitoring", "d8-ai-models"):
        assert not serves(namespace, "d8-ai-models")
    assert not serves("mine", "mine")


def keys(*names: str) -> list[DeliveryKey]:
    return [DeliveryKey("n", "Model", name) for name in names]


def test_places_are_given_in_the_order_of_asking() -> None:
    slots = Slots(2)
    a, b, c, d = keys("a", "b", "c", "d")
    assert slots.take(a, set())
    assert slots.take(b, {a}), "a place that is taken counts although no informer shows it"
    assert not slots.take(c, {a, b})
    assert not slots.take(d, {a, b})
    assert slots.waiting == (c, d)
    assert not slots.take(d, {a})
    assert slots.take(c, {a})
    assert slots.take(a, {a, c}), "who has a place keeps it"
    assert slots.take(d, {a})  # c is still held although it is not shown


def test_who_leaves_the_line_is_not_waited_for() -> None:
    slots = Slots(1)
    a, b, c = keys("a", "b", "c")
    assert slots.take(a, set())
    assert not slots.take(b, {a})
    assert not slots.take(c, {a})
    slots.leave(b)
    slots.leave(a)
    assert slots.take(c, set())
