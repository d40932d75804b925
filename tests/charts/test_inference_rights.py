"""Who may do what in ai-inference: a snapshot, what nobody may do, and the closed rights of people."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.kit import helm, rbac
from tests.kit.inferenceapi import CHART

SNAPSHOT = Path(__file__).parent / "rights-inference.yaml"
POLICY = "ValidatingAdmissionPolicy"
WRITING = {"create", "patch", "update", "delete", "deletecollection"}
FORBIDDEN_VERBS = {"*", "bind", "escalate", "impersonate"}
EVERYTHING = "create delete deletecollection get list patch update watch"
#: what no role for people may hold: subresources, credentials, what only controllers write
CLOSED_TO_PEOPLE = ("/", "secrets", "roles", "configmaps", "leases", "statefulsets", "models")


def roles(values: helm.Manifest | None = None) -> list[helm.Manifest]:
    return [item for item in helm.render(values, chart=CHART) if item["kind"] in {"Role", "ClusterRole"}]


def people() -> list[helm.Manifest]:
    rendered = helm.render(chart=CHART)
    bound = {i["roleRef"]["name"] for i in rendered if i["kind"] in {"RoleBinding", "ClusterRoleBinding"}}
    return [role for role in roles() if role["metadata"]["name"] not in bound]


def test_the_rights_of_every_identity_are_those_agreed_on() -> None:
    """A change here is a change of who may do what: change the snapshot together with the reason."""
    assert rbac.identities(helm.render(chart=CHART)) == yaml.safe_load(SNAPSHOT.read_text())


def test_without_the_catalogue_nobody_may_read_models() -> None:
    rendered = helm.render({"catalog": {"mode": "None"}}, chart=CHART)
    left = rbac.identities(rendered)
    whole = rbac.identities(helm.render(chart=CHART))
    gone = {name: sorted(set(whole[name]) - set(left[name])) for name in whole}
    assert {name: lines for name, lines in gone.items() if lines} == {
        "ai-inference-controller": [
            "*: clustermodels.ai.deckhouse.io: get",
            "*: models.ai.deckhouse.io: get",
        ]
    }
    text = yaml.safe_dump(helm.one(rendered, "Deployment", "ai-inference-controller"))
    assert "catalog-token" not in text
    assert "CATALOG_BASE_URL" not in text


def test_no_role_uses_wildcards_or_widens_itself() -> None:
    for role in roles():
        for rule in role["rules"]:
            assert not FORBIDDEN_VERBS & set(rule["verbs"]), role["metadata"]["name"]
            assert "*" not in [*rule["apiGroups"], *rule["resources"]], role["metadata"]["name"]


def test_nobody_lists_or_watches_secrets() -> None:
    for role in roles():
        for rule in role["rules"]:
            if "secrets" in rule["resources"]:
                assert not {"list", "watch", "deletecollection"} & set(rule["verbs"]), role["metadata"][
                    "name"
                ]


def test_all_that_the_controller_writes_for_orders_is_held_to_its_form() -> None:
    """A right in every namespace needs a policy; events and statuses have no form of their own."""
    rendered = helm.render(chart=CHART, api_versions=("monitoring.coreos.com/v1",))
    policies = {one["metadata"]["name"]: one for one in rendered if one["kind"] == POLICY}
    bound = {one["spec"]["policyName"] for one in rendered if one["kind"] == f"{POLICY}Binding"}
    assert bound == set(policies)
    written = {
        (group, resource)
        for rule in helm.one(rendered, "ClusterRole", "d8:ai-inference:controller")["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        if WRITING & set(rule["verbs"]) and "/" not in resource and resource != "events"
    }
    assert held(policies["ai-inference-controller"]) == written
    for group, resource in written:
        assert held(policies[f"ai-inference-controller-{resource}"]) == {(group, resource)}
    for name, policy in policies.items():
        (condition,) = policy["spec"]["matchConditions"]
        if name.startswith("ai-inference-controller"):
            assert "'system:serviceaccount:d8-ai-inference:ai-inference-controller'" in str(condition)
            assert policy["spec"]["failurePolicy"] == "Fail"


def held(policy: helm.Manifest) -> set[tuple[str, str]]:
    return {
        (group, resource)
        for rule in policy["spec"]["matchConstraints"]["resourceRules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def test_people_never_reach_internals() -> None:
    assert len(people()) > 8
    lines = [line for role in people() for line in rbac.rules(role)]
    resources = {line.partition(".ai.deckhouse.io")[0] for line in lines}
    assert [name for name in resources for word in CLOSED_TO_PEOPLE if word in name] == []


@pytest.mark.parametrize(
    ("level", "rights"),
    [
        ("User", ["inferenceservices.ai.deckhouse.io: get list watch"]),
        ("PrivilegedUser", []),
        ("Editor", ["inferenceservices.ai.deckhouse.io: create delete deletecollection patch update"]),
        ("Admin", []),
        ("ClusterEditor", [f"inferenceserviceclasses.ai.deckhouse.io: {EVERYTHING}"]),
        ("ClusterAdmin", []),
    ],
)
def test_access_levels_of_deckhouse_carry_their_delta(level: str, rights: list[str]) -> None:
    (role,) = [
        item
        for item in roles()
        if item["metadata"].get("annotations", {}).get("user-authz.deckhouse.io/access-level") == level
    ]
    assert sorted(rbac.rules(role)) == rights


def test_who_orders_does_not_read_classes() -> None:
    """The walk-through says so: the owner of an order sees the outcome in the order's status."""
    for role in roles():
        labels = role["metadata"]["labels"]
        kubernetes = [label for label in labels if label.startswith("rbac.authorization.k8s.io/aggregate")]
        if labels.get("rbac.deckhouse.io/kind") == "use" or kubernetes:
            assert {one for rule in role["rules"] for one in rule["resources"]} == {"inferenceservices"}
