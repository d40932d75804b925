from __future__ import annotations

import pytest

from aimodels.api.model import ClusterModel, Model
from aimodels.catalog import names
from aimodels.catalog.names import Key
from tests.kit.observations import UID, model

OURS = Key("Model", "team", "uploaded-model")
CLUSTER = Key("ClusterModel", "", "gemma")


def test_names_are_those_of_the_guide() -> None:
    assert names.upload_secret(OURS) == "ai-model-upload-uploaded-model"
    assert names.upload_role(OURS) == "ai-model-upload-reader-uploaded-model"
    assert names.upload_secret(CLUSTER) == "ai-clustermodel-upload-gemma"
    assert names.upload_role(CLUSTER) == "ai-clustermodel-upload-reader-gemma"
    assert names.upload_namespace(OURS, "d8-ai-models") == "team"
    assert names.upload_namespace(CLUSTER, "d8-ai-models") == "d8-ai-models"
    assert names.repository(OURS) == "models/team/uploaded-model"
    assert names.repository(CLUSTER) == "clustermodels/gemma"
    assert names.publication_job("u", 2, 3) == "ai-model-publish-u-g2-a3"


def test_a_long_name_is_cut_and_stays_its_own() -> None:
    long, other = (Key("Model", "team", "m" * 252 + end) for end in "ab")
    assert len(names.upload_role(long)) == len(names.upload_secret(long)) == 253
    assert names.upload_role(long) != names.upload_role(other)
    assert names.upload_role(long) == names.upload_role(Key(*long))


def test_a_cut_name_is_still_a_name() -> None:
    dotted = Key("Model", "team", ("a" * 62 + ".") * 4)
    assert not names.upload_role(dotted).rpartition("-")[0].endswith((".", "-"))


@pytest.mark.parametrize(
    ("transfer", "uid"),
    [
        (names.upload_transfer(UID, 1, "00ff"), UID),
        (names.publication_transfer(UID, 12, 345), UID),
        ("copy-ai-model-m-1", None),
        ("upload-x", None),
        ("", None),
    ],
)
def test_a_transfer_leads_back_to_its_model(transfer: str, uid: str | None) -> None:
    assert names.uid_of(transfer) == uid


def test_a_job_name_is_a_labels_value() -> None:
    assert len(names.publication_job(UID, 99, 9999)) <= 63


def test_keys_know_their_kind() -> None:
    assert Key.of(model()).struct is Model
    assert Key.of(model(cluster=True)).struct is ClusterModel
    assert str(OURS) == "Model team/uploaded-model"
    assert str(CLUSTER) == "ClusterModel gemma"
