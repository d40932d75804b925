"""``aictl why``: one answer from an order to its model and Pods."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from aictl import explanations
from aictl.exits import Exit
from aictl.why import code
from aiinference.api import meanings as inference
from aiinference.api.orders import InferenceService
from aimodels.api import meanings as models
from aimodels.api.model import Model
from kubekit.resources import Pod

if TYPE_CHECKING:
    from kubekit.vocabulary import Meaning

NOW = datetime(2026, 11, 29, 0, 4, tzinfo=UTC)
SINCE = "2026-11-29T00:00:00Z"


def condition(kind: str, status: str, reason: str, message: str = "") -> dict[str, str]:
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": SINCE}


def order(*conditions: dict[str, str], **status: Any) -> InferenceService:
    return msgspec.convert(
        {
            "metadata": {"name": "search", "namespace": "support"},
            "spec": {
                "inferenceServiceClassName": "default-llm",
                "model": {"src": "ai-models", "ref": {"kind": "Model", "name": "gemma"}},
            },
            "status": {"conditions": list(conditions)} | status,
        },
        InferenceService,
    )


def model(*, ready: bool = True, phase: str = "Publishing", reason: str = "Downloading") -> Model:
    said = condition("Ready", "True", "Ready") if ready else condition("Ready", "False", reason)
    status = {"phase": "Ready" if ready else phase, "progress": "43%", "conditions": [said]}
    return msgspec.convert(
        {"metadata": {"name": "gemma", "namespace": "support"}, "spec": {"source": {}}, "status": status},
        Model,
    )


def pod(name: str, *, ready: bool, message: str = "") -> Pod:
    said = [{"type": "Ready", "status": "True" if ready else "False", "message": message}]
    status = {"phase": "Running" if ready else "Pending", "conditions": said}
    return msgspec.convert({"metadata": {"name": name}, "status": status}, Pod)


HOLDS = (
    condition("ClassResolved", "True", "ClassResolved"),
    condition("ModelResolved", "True", "ModelResolved"),
)


def test_an_order_without_capacity_says_so_and_what_to_do() -> None:
    lacking = condition("Planned", "False", "NoCapacity", "One replica needs 40.1 GiB; the limit is 32 GiB.")
    found = explanations.of_order(order(*HOLDS, lacking, phase="Pending"), model(), [])
    lines = found.text(NOW).splitlines()
    assert lines[0] == (
        "InferenceService support/search is Pending: One replica needs 40.1 GiB; the limit is 32 GiB "
        "(NoCapacity), since 4m."
    )
    assert lines[1:4] == [
        "  class  default-llm  holds",
        "  model  Model/gemma  Ready",
        "  plan   cpu  NoCapacity: One replica needs 40.1 GiB; the limit is 32 GiB.",
    ]
    assert lines[-1].startswith("Next: ")
    assert code(found) is Exit.FAILED


def test_an_order_that_waits_for_its_model_points_to_the_model() -> None:
    waiting = condition("ModelResolved", "False", "ModelNotReady", "Model gemma is not ready.")
    found = explanations.of_order(order(HOLDS[0], waiting, phase="Pending"), model(ready=False), None)
    text = found.text(NOW)
    assert "model  Model/gemma  Publishing  Downloading  43%" in text
    assert "Next: `aictl wait gemma -n support`" in text
    assert "pods" in text


def test_the_first_condition_that_does_not_hold_is_the_reason() -> None:
    later = condition("Ready", "False", "HealthCheckFailed", "No answer.")
    crashed = condition("WorkloadReady", "False", "OutOfMemory", "Pod search-0 was killed.")
    found = explanations.of_order(order(*HOLDS, crashed, later, phase="Pending"), model(), [])
    assert (found.reason, found.message) == ("OutOfMemory", "Pod search-0 was killed.")


def test_what_is_only_unknown_hides_nothing() -> None:
    unknown = condition("ScalingHealthy", "Unknown", "MetricsUnavailable", "There are no metrics.")
    later = condition("Ready", "False", "HealthCheckFailed", "No answer.")
    found = explanations.of_order(order(*HOLDS, unknown, later, phase="Pending"), model(), [])
    assert found.reason == "HealthCheckFailed"


def test_pods_say_what_they_wait_for() -> None:
    pods = [pod("search-1", ready=False, message="0/1 nodes are available."), pod("search-0", ready=True)]
    found = explanations.of_order(order(*HOLDS), None, pods)
    links = [(one.part, one.name, one.state) for one in found.links]
    assert ("model", "Model/gemma", "cannot be read by you, or is not there") in links
    assert links[-2:] == [
        ("pod", "search-0", "Ready"),
        ("pod", "search-1", "Pending: 0/1 nodes are available."),
    ]


def test_an_order_that_is_ready_needs_no_next_step() -> None:
    ready = condition("Ready", "True", "Ready", "The API answers.")
    found = explanations.of_order(order(*HOLDS, ready, phase="Ready"), model(), [pod("search-0", ready=True)])
    assert found.text(NOW).splitlines()[0] == "InferenceService support/search is Ready, since 4m."
    assert "Next" not in found.text(NOW)
    assert code(found) is Exit.DONE


def test_an_order_that_nobody_has_looked_at_says_that() -> None:
    found = explanations.of_order(msgspec.structs.replace(order(), status=None), None, None)
    assert "no controller has looked at it yet" in found.text(NOW)
    assert code(found) is Exit.FAILED


@pytest.mark.parametrize(
    ("reason", "ends"), [("QuantizationMismatch", Exit.IMPOSSIBLE), ("Starting", Exit.FAILED)]
)
def test_the_exit_code_tells_whether_waiting_helps(reason: str, ends: Exit) -> None:
    found = explanations.of_order(order(*HOLDS, condition("Planned", "False", reason)), None, [])
    assert code(found) is ends


def test_a_model_is_explained_too() -> None:
    found = explanations.of_model(model(ready=False))
    assert found.text(NOW).splitlines()[:2] == [
        "Model support/gemma is Publishing (Downloading), since 4m.",
        "  43%",
    ]
    assert code(explanations.of_model(model())) is Exit.DONE


def of_workload(reason: str, message: str, *models: explanations.Named) -> explanations.Explanation:
    return explanations.of_workload("Deployment", "support/app", reason, message, models)


def named(found: Model | None, *, hidden: bool = False) -> explanations.Named:
    return explanations.Named(Model, "gemma", found, hidden=hidden)


def test_a_workload_says_what_its_models_wait_for() -> None:
    found = of_workload("SharedPVCQuotaExceeded", "The quota is used up.", named(model()))
    text = found.text(NOW).splitlines()
    assert text[0] == (
        "Deployment support/app is waiting for its models: The quota is used up (SharedPVCQuotaExceeded)."
    )
    assert text[1] == "  model  Model/gemma  Ready"
    assert code(of_workload("", "", named(model()))) is Exit.DONE


def test_a_workload_that_names_a_missing_model_is_told_to_correct_that() -> None:
    message = "There is no Model gemma in the namespace support. Create it, or correct the annotation."
    found = of_workload("SharedPVCMaterializerPending", message, named(model()), named(None))
    assert found.links[1].state == "is not there"
    assert found.next_step == "Create Model gemma, or correct the annotation"
    assert code(found) is Exit.IMPOSSIBLE


@pytest.mark.parametrize("reason", ["SharedPVCClaimPending", "SharedPVCMaterializerPending"])
@pytest.mark.parametrize("hidden", [False, True])
def test_a_workload_whose_model_is_being_prepared_says_so(reason: str, *, hidden: bool) -> None:
    one = named(None, hidden=True) if hidden else named(model())
    found = of_workload(reason, "The claim is not bound.", one)
    assert found.next_step.startswith("The model is being prepared, which passes by itself")
    assert code(found) is Exit.FAILED


@pytest.mark.parametrize(("phase", "ends"), [("Publishing", Exit.FAILED), ("Failed", Exit.IMPOSSIBLE)])
def test_a_workload_that_waits_for_its_model_points_to_the_model(phase: str, ends: Exit) -> None:
    waited = model(ready=False, phase=phase)
    found = of_workload("SharedPVCMaterializerPending", "It is not Ready yet.", named(waited))
    assert found.next_step == "`aictl wait gemma -n support` follows the model"
    assert code(found) is ends
    wrong = condition("ModelResolved", "False", "ModelNotReady", "Model gemma is not ready.")
    assert code(explanations.of_order(order(wrong), waited, None)) is ends


def test_an_order_that_starts_does_not_mind_what_becomes_of_the_model() -> None:
    starting = condition("WorkloadReady", "False", "Starting", "Replicas are starting.")
    assert code(explanations.of_order(order(*HOLDS, starting), model(ready=False, phase="Failed"), [])) is (
        Exit.FAILED
    )


#: waiting alone may help: an outage, a start, room that others free
MAY_PASS = {
    *("ModelDeliveryPending", "ModelNotReady", "CatalogUnavailable", "NoCapacity", "InventoryUnavailable"),
    *("PlannerUnavailable", "Unschedulable", "ImagePullFailed", "StartupDeadlineExceeded"),
    *("ScalingLimited", "MetricsUnavailable", "HealthCheckFailed", "ServiceUnhealthy"),
    *("StorageUnavailable", "Stalled", "CatalogSourceNotReady"),
    *("SharedPVCClaimPending", "SharedPVCMaterializerPending"),
}


def is_obstacle(entry: Meaning) -> bool:
    return entry.recovers is not None


@pytest.mark.parametrize("reason", [word for word, entry in inference.ORDER.items() if is_obstacle(entry)])
def test_every_reason_of_an_order_ends_as_the_page_says(reason: str) -> None:
    found = explanations.of_order(order(condition("Planned", "False", reason)), None, [])
    assert code(found) is (Exit.FAILED if reason in MAY_PASS else Exit.IMPOSSIBLE)


@pytest.mark.parametrize("reason", [word for word, entry in models.MODEL.items() if is_obstacle(entry)])
def test_every_reason_of_a_model_ends_as_the_page_says(reason: str) -> None:
    found = explanations.of_model(model(ready=False, reason=reason))
    assert code(found) is (Exit.FAILED if reason in MAY_PASS else Exit.IMPOSSIBLE)


@pytest.mark.parametrize("reason", models.BLOCKED)
def test_every_reason_of_a_delivery_ends_as_the_page_says(reason: str) -> None:
    found = of_workload(reason, "It waits.", named(model()))
    assert code(found) is (Exit.FAILED if reason in MAY_PASS else Exit.IMPOSSIBLE)


def test_words_that_the_scheduler_doubles_are_said_once() -> None:
    message = '0/1 nodes are available: persistentvolumeclaim "ai-model-gemma-1" not found. not found'
    found = explanations.of_order(order(*HOLDS), None, [pod("search-0", ready=False, message=message)])
    assert found.links[-1].state.endswith('persistentvolumeclaim "ai-model-gemma-1" not found')
    assert found.links[-1].state.count("not found") == 1


def test_the_document_has_stable_keys() -> None:
    found = explanations.of_order(order(*HOLDS), model(), [])
    assert list(found.document()) == [
        "name",
        "phase",
        "ready",
        "reason",
        "message",
        "since",
        "chain",
        "nextStep",
        "passesByItself",
    ]
