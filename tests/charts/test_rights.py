"""Who may do what: the table of identities is a snapshot, and some things nobody may ever do."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.kit import helm, rbac

SNAPSHOT = Path(__file__).parent / "rights.yaml"
S3 = {"bucket": "models", "endpoint": "https://s3.example.com", "credentialsSecretName": "s3-keys"}
FORBIDDEN_VERBS = {"*", "bind", "escalate", "impersonate"}
#: What no role for people may hold: internals, credentials, and what only controllers write.
CLOSED_TO_PEOPLE = ("secrets", "/status", "/finalizers", "pods/", "jobs", "roles", "configmaps", "leases")


def _roles() -> list[helm.Manifest]:
    return [item for item in helm.render() if item["kind"] in {"Role", "ClusterRole"}]


def _people() -> list[helm.Manifest]:
    bound = {
        i["roleRef"]["name"] for i in helm.render() if i["kind"] in {"RoleBinding", "ClusterRoleBinding"}
    }
    return [role for role in _roles() if role["metadata"]["name"] not in bound]


@pytest.mark.parametrize("values", [{}, {"artifacts": S3}], ids=["embedded", "s3"])
def test_the_rights_of_every_identity_are_those_agreed_on(values: helm.Manifest) -> None:
    """A change here is a change of who may do what: change the snapshot together with the reason."""
    assert rbac.identities(helm.render(values)) == yaml.safe_load(SNAPSHOT.read_text())


def test_those_who_meet_users_or_move_bytes_have_no_right_in_kubernetes() -> None:
    rights = rbac.identities(helm.render())
    for name in ("ai-models-upload-gateway", "ai-models-publication", "ai-models-copy"):
        assert rights[name] == []
    assert rights["dmcr"] == ["*: tokenreviews.authentication.k8s.io: create"]


def test_no_role_uses_wildcards_or_widens_itself() -> None:
    for role in _roles():
        for rule in role["rules"]:
            assert not FORBIDDEN_VERBS & set(rule["verbs"]), role["metadata"]["name"]
            assert "*" not in [*rule["apiGroups"], *rule["resources"]], role["metadata"]["name"]


def test_nobody_lists_or_watches_secrets() -> None:
    for role in _roles():
        for rule in role["rules"]:
            if "secrets" in rule["resources"]:
                assert not {"list", "watch", "deletecollection"} & set(rule["verbs"]), role["metadata"][
                    "name"
                ]


def test_people_never_reach_internals() -> None:
    assert _people()
    for role in _people():
        lines = list(rbac.rules(role))
        assert not [line for line in lines for word in CLOSED_TO_PEOPLE if word in line], role["metadata"][
            "name"
        ]


@pytest.mark.parametrize(
    ("level", "rights"),
    [
        ("User", ["clustermodels.ai.deckhouse.io: get list watch", "models.ai.deckhouse.io: get list watch"]),
        ("PrivilegedUser", []),
        ("Editor", ["models.ai.deckhouse.io: create delete deletecollection patch update"]),
        ("Admin", []),
        ("ClusterEditor", ["clustermodels.ai.deckhouse.io: create delete deletecollection patch update"]),
        ("ClusterAdmin", []),
    ],
)
def test_access_levels_of_deckhouse_carry_their_delta(level: str, rights: list[str]) -> None:
    (role,) = [
        item
        for item in _roles()
        if item["metadata"].get("annotations", {}).get("user-authz.deckhouse.io/access-level") == level
    ]
    assert sorted(rbac.rules(role)) == rights


def test_the_use_roles_name_no_cluster_wide_kind() -> None:
    """A RoleBinding cannot grant one, so that such a rule would promise what it does not hold."""
    for role in _roles():
        if role["metadata"]["labels"].get("rbac.deckhouse.io/kind") == "use":
            assert {resource for rule in role["rules"] for resource in rule["resources"]} == {"models"}
