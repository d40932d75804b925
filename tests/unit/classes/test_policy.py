"""What holds for an order: the class's word, else the platform's."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiinference.api.classes import InferenceServiceClass
from aiinference.classes.policy import Accelerator, Exposure, Https, device_classes, effective

MODULE = Https("OnlyInURI")
NAMES = st.lists(st.sampled_from("abcdef"), max_size=6)


def klass(**spec: Any) -> InferenceServiceClass:
    spec.setdefault("modelPolicy", {"allowedEndpointTypes": ["Chat"]})
    return msgspec.convert({"metadata": {"name": "chat"}, "spec": spec}, InferenceServiceClass)


def test_an_order_without_a_class_gets_what_is_built_in() -> None:
    policy = effective(None, MODULE)
    assert (policy.class_name, policy.endpoint_types, policy.accelerator) == (None, (), None)
    built_in = Https("CertManager", cluster_issuer_name="selfsigned")
    assert policy.exposure == Exposure("External", "Token", built_in)
    assert policy.admits("anywhere")
    assert (policy.min_replicas, policy.max_replicas, policy.update_strategy) == (1, 1, "RollingUpdate")


def test_a_class_without_blocks_holds_as_no_class_does() -> None:
    classless, bare = effective(None, MODULE), effective(klass(), MODULE)
    same = ("accelerator", "allowed_namespaces", "priority_class", "min_replicas", "max_replicas")
    for name in (*same, "update_strategy", "max_parameter_count"):
        assert getattr(bare, name) == getattr(classless, name), name


def test_everything_that_a_class_says_holds() -> None:
    policy = effective(
        klass(
            modelPolicy={"allowedEndpointTypes": ["Embeddings", "Chat"], "maxParameterCount": "70B"},
            exposurePolicy={
                "type": "External",
                "authentication": "None",
                "https": {"mode": "CustomCertificate", "customCertificate": {"secretName": "wild"}},
            },
            acceleratorPolicy={
                "allowedDeviceClasses": ["b", "a"],
                "allowedSharingModes": ["Shared"],
                "allowedPlacementTypes": ["Partition"],
                "maxAcceleratorCount": 2,
                "minSharePercent": 25,
                "maxSharePercent": 50,
                "fallback": "CPU",
            },
            admissionPolicy={"allowedNamespaces": ["ml"]},
            scalingPolicy={"allowedPriorityClassNames": ["high", "low"], "minReplicas": 1, "maxReplicas": 4},
            updatePolicy={"strategy": "Recreate"},
        ),
        MODULE,
    )
    assert policy.class_name == "chat"
    assert policy.endpoint_types == ("Embeddings", "Chat")
    assert policy.max_parameter_count == 70 * 10**9
    assert policy.exposure == Exposure("External", "None", Https("CustomCertificate", secret_name="wild"))
    assert policy.accelerator == Accelerator(("b", "a"), ("Shared",), ("Partition",), 2, 25, 50, "CPU")
    assert (policy.admits("ml"), policy.admits("support")) == (True, False)
    assert policy.priority_class == "high"
    assert (policy.min_replicas, policy.max_replicas) == (1, 4)
    assert policy.update_strategy == "Recreate"


def test_absent_lists_of_the_accelerator_policy_restrict_nothing() -> None:
    policy = effective(klass(acceleratorPolicy={}), MODULE)
    assert policy.accelerator == Accelerator(
        None, ("Shared", "Dedicated"), ("WholeDevice", "Partition"), 1, 1, 100, "None"
    )


def test_a_class_without_certificates_of_its_own_has_the_modules() -> None:
    policy = effective(klass(exposurePolicy={"type": "External"}), MODULE)
    assert policy.exposure == Exposure("External", "Token", MODULE)


def test_nothing_inside_the_cluster_has_a_certificate() -> None:
    policy = effective(klass(exposurePolicy={"type": "ClusterLocal", "authentication": "None"}), MODULE)
    assert policy.exposure == Exposure("ClusterLocal", "None", None)


@pytest.mark.parametrize("namespaces", [["*"], ["ml", "*"], []])
def test_a_star_or_no_list_admits_every_namespace(namespaces: list[str]) -> None:
    policy = effective(klass(admissionPolicy={"allowedNamespaces": namespaces}), MODULE)
    assert policy.admits("support")


@pytest.mark.parametrize(
    ("scaling", "bounds"), [({"minReplicas": 3}, (3, 3)), ({"maxReplicas": 3}, (1, 3)), ({}, (1, 1))]
)
def test_an_absent_bound_of_replicas_follows_the_other(
    scaling: dict[str, int], bounds: tuple[int, int]
) -> None:
    policy = effective(klass(scalingPolicy=scaling), MODULE)
    assert (policy.min_replicas, policy.max_replicas) == bounds


@pytest.mark.parametrize(
    ("allowed", "ordered", "common"),
    [
        (["a", "b"], ["c"], ()),
        (["a", "b"], ["b", "c"], ("b",)),
        (["b", "a"], [], ("a", "b")),
        (None, ["c"], ("c",)),
        (None, [], None),
    ],
)
def test_an_order_narrows_the_classs_list(
    allowed: list[str] | None, ordered: list[str], common: tuple[str, ...] | None
) -> None:
    assert device_classes(allowed, ordered) == common


@given(NAMES.filter(bool), NAMES, st.randoms())
def test_the_common_device_classes_do_not_depend_on_the_order_of_names(
    allowed: list[str], ordered: list[str], random: Any
) -> None:
    expected = device_classes(allowed, ordered)
    assert expected is not None
    assert set(expected) <= set(allowed)
    assert not ordered or set(expected) == set(allowed) & set(ordered)
    random.shuffle(allowed)
    random.shuffle(ordered)
    assert device_classes(allowed, ordered) == expected
