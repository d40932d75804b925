from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import pytest

from aimodels.api.reasons import DeliveryBlockedReason as Reason
from aimodels.delivery.claims import Claim
from aimodels.delivery.decide import decide
from aimodels.delivery.names import DeliveryKey, claim_name
from aimodels.delivery.state import (
    AbandonFill,
    Blocked,
    DeleteClaim,
    Fill,
    FinishHandOver,
    HandOver,
    ModelState,
    Mount,
    Observation,
    RestartCopy,
    StartCopy,
    StartFill,
    StepBack,
)
from aimodels.jobs.observed import Held, JobPhase

NOW = datetime(2026, 5, 1, tzinfo=UTC)
KEY = DeliveryKey("ai-demo", "Model", "gemma")
X, Y = "sha256:x", "sha256:y"
READY = ModelState(exists=True, phase="Ready", digest=X, size_bytes=10)
NO_CLASS = Blocked(Reason.SHARED_PVC_STORAGE_CLASS_MISSING, "none", hard=True)


def claim(serial: int = 1, digest: str = X, **changes: Any) -> Claim:
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


def fill(copy: JobPhase, serial: int = 1, digest: str = X, **changes: Any) -> Fill:
    changes = {"namespace": "d8-ai-models", "name": f"fill-{serial}", "filling": True} | changes
    return Fill(claim(serial, digest, **changes), copy)


def seen(**changes: Any) -> Observation:
    return replace(Observation(KEY, READY, wanted=True, storage_class="shared"), **changes)


def mount(serial: int = 1, digest: str = X, *, used: bool = False, **changes: Any) -> Mount:
    return Mount(claim(serial, digest, **changes), used)


def test_a_wanted_model_is_filled() -> None:
    plan = decide(seen(), NOW)
    assert plan.actions == (StartFill(1, X, 10, "shared"),)
    assert plan.blocked is not None
    assert plan.blocked.reason == Reason.SHARED_PVC_MATERIALIZER_PENDING


def test_without_a_class_nothing_is_begun() -> None:
    plan = decide(seen(storage_class=NO_CLASS), NOW)
    assert plan.actions == ()
    assert plan.blocked == NO_CLASS


def test_a_missing_class_does_not_stop_what_is_on_its_way() -> None:
    filled = fill(JobPhase.SUCCEEDED)
    plan = decide(seen(storage_class=NO_CLASS, fills=(filled,)), NOW)
    assert plan.actions == (HandOver(filled.claim),)


@pytest.mark.parametrize(
    ("copy", "expected"),
    [(JobPhase.ABSENT, StartCopy), (JobPhase.ACTIVE, None), (JobPhase.SUCCEEDED, HandOver)],
)
def test_a_fill_goes_step_by_step(copy: JobPhase, expected: type | None) -> None:
    plan = decide(seen(fills=(fill(copy),)), NOW)
    assert [type(action) for action in plan.actions] == ([expected] if expected else [])
    assert plan.blocked is not None


def test_a_claim_that_waits_for_a_class_given_up_is_made_anew() -> None:
    stuck = fill(JobPhase.ACTIVE, bound=False, volume="", storage_class="typo")
    assert decide(seen(fills=(stuck,)), NOW).actions == (AbandonFill(stuck.claim),)
    assert decide(seen(fills=(stuck,), storage_class=NO_CLASS), NOW).actions == ()
    for copy in (JobPhase.ACTIVE, JobPhase.SUCCEEDED):
        kept = fill(copy, storage_class="earlier", lost=copy is JobPhase.SUCCEEDED)
        assert AbandonFill(kept.claim) not in decide(seen(fills=(kept,)), NOW).actions


def test_an_unbound_claim_and_a_running_copy_are_told_apart() -> None:
    waiting = decide(seen(fills=(fill(JobPhase.ACTIVE, bound=False),)), NOW).blocked
    running = decide(seen(fills=(fill(JobPhase.ACTIVE),)), NOW).blocked
    assert waiting is not None
    assert running is not None
    assert waiting.reason == Reason.SHARED_PVC_CLAIM_PENDING
    assert "describe pvc" in waiting.message
    assert running.reason == Reason.SHARED_PVC_MATERIALIZER_PENDING


def held(seconds: int, *, bound: bool = True) -> Fill:
    """Return a copy whose Pod waits for its image since then."""
    waits = Held("ErrImagePull: no host", NOW - timedelta(seconds=seconds))
    return replace(fill(JobPhase.ACTIVE, bound=bound), held=waits)


@pytest.mark.parametrize("bound", [True, False])
def test_a_pod_that_is_held_up_is_told_with_its_own_reason_within_seconds(*, bound: bool) -> None:
    lasting = decide(seen(fills=(held(5, bound=bound),)), NOW)
    fresh = decide(seen(fills=(held(4, bound=bound),)), NOW)
    assert lasting.blocked is not None
    assert fresh.blocked is not None
    assert "Its Pod does not run: ErrImagePull: no host" in lasting.blocked.message
    assert "ErrImagePull" not in fresh.blocked.message
    assert lasting.blocked.reason == fresh.blocked.reason
    assert fresh.again == 2, "nothing else tells that"


def test_a_copy_whose_pod_does_not_run_gives_its_place_to_somebody_who_waits() -> None:
    waits = held(60)
    assert decide(seen(fills=(waits,)), NOW).actions == (), "while nobody waits it may begin at any time"
    assert decide(seen(fills=(held(59),), crowded=True), NOW).actions == ()
    running = replace(fill(JobPhase.ACTIVE), running=True)
    assert decide(seen(fills=(running,), crowded=True), NOW).actions == ()

    renewed = decide(seen(fills=(held(12 * 3600),)), NOW)
    assert [type(one) for one in renewed.actions] == [StepBack], "its leave to read would lapse"

    plan = decide(seen(fills=(waits,), crowded=True), NOW)
    assert plan.actions == (StepBack(waits.claim, " Its Pod does not run: ErrImagePull: no host"),)
    assert plan.blocked is not None
    assert "no host" in plan.blocked.message


@pytest.mark.parametrize(
    ("seconds", "outdated", "renewed"), [(59, True, False), (60, True, True), (60, False, False)]
)
def test_a_copy_that_was_made_with_settings_before_is_made_anew(
    seconds: int, *, outdated: bool, renewed: bool
) -> None:
    waits = held(seconds)
    assert waits.held is not None
    waits = replace(waits, held=replace(waits.held, outdated=outdated))
    actions = decide(seen(fills=(waits,)), NOW).actions
    assert [type(one) for one in actions] == ([StepBack] if renewed else [])


def test_a_copy_that_gave_up_rests_and_begins_again() -> None:
    why = Blocked(Reason.SHARED_PVC_CLAIM_PENDING, "the volume is read-only", hard=True)
    failed = replace(fill(JobPhase.FAILED), failed_at=NOW - timedelta(seconds=20), failure=why)
    resting = decide(seen(fills=(failed,)), NOW)
    assert (resting.actions, resting.blocked, resting.again) == ((), why, 40.0)
    rested = decide(seen(fills=(failed,)), NOW + timedelta(seconds=60))
    assert rested.actions == (RestartCopy(failed.claim),)
    assert rested.blocked == why


def test_a_delivered_model_needs_nothing() -> None:
    plan = decide(seen(mounts=(mount(used=True),)), NOW)
    assert (plan.actions, plan.blocked, plan.again) == ((), None, None)


def test_what_the_filling_needed_goes_once_the_claim_is_bound() -> None:
    filled = fill(JobPhase.SUCCEEDED, lost=True)
    assert decide(seen(mounts=(mount(),), fills=(filled,)), NOW).actions == (FinishHandOver(filled.claim),)
    going = fill(JobPhase.ABSENT, deleting=True)
    assert decide(seen(mounts=(mount(),), fills=(going,)), NOW).actions == ()


def test_a_fill_whose_claim_got_another_volume_is_taken_back() -> None:
    """Finished, its volume would wait for ever for a claim that is bound elsewhere."""
    filled = fill(JobPhase.SUCCEEDED, volume="pv-filled")
    plan = decide(seen(mounts=(mount(volume="pv-of-a-user"),), fills=(filled,)), NOW)
    assert plan.actions == (AbandonFill(filled.claim),)


def test_a_claim_that_is_made_but_not_bound_is_handed_over_again() -> None:
    filled = fill(JobPhase.SUCCEEDED, lost=True)
    plan = decide(seen(mounts=(mount(bound=False),), fills=(filled,)), NOW)
    assert plan.actions == (HandOver(filled.claim),)


def test_another_digest_gets_another_claim_and_the_old_one_stays_while_it_is_used() -> None:
    model = replace(READY, digest=Y)
    plan = decide(seen(model=model, listed=1, mounts=(mount(used=True),)), NOW)
    assert plan.actions == (StartFill(2, Y, 10, "shared"),)
    later = decide(seen(model=model, listed=2, mounts=(mount(), mount(2, Y))), NOW)
    assert later.actions == (DeleteClaim(claim()),)
    assert later.blocked is None


def test_an_obsolete_fill_is_abandoned() -> None:
    old = fill(JobPhase.ACTIVE)
    plan = decide(seen(model=replace(READY, digest=Y), fills=(old,)), NOW)
    assert plan.actions == (AbandonFill(old.claim), StartFill(2, Y, 10, "shared"))


def test_nobody_wants_it_any_more() -> None:
    running = fill(JobPhase.ACTIVE)
    plan = decide(seen(wanted=False, mounts=(mount(),), fills=(running,)), NOW)
    assert plan.actions == (AbandonFill(running.claim), DeleteClaim(claim()))
    assert plan.blocked is None


def test_a_claim_that_a_pod_uses_waits_for_the_pod() -> None:
    assert decide(seen(wanted=False, mounts=(mount(used=True),)), NOW).actions == ()


def test_a_model_that_is_gone_takes_its_claims_along() -> None:
    gone = ModelState(exists=False)
    plan = decide(seen(model=gone, mounts=(mount(used=True),)), NOW)
    assert plan.actions == (DeleteClaim(claim()),)


@pytest.mark.parametrize(
    "model",
    [
        ModelState(exists=True, phase="Publishing"),
        ModelState(exists=False),
        replace(READY, deleting=True),
    ],
)
def test_a_model_that_is_not_ready_is_waited_for(model: ModelState) -> None:
    plan = decide(seen(model=model), NOW)
    assert plan.actions == ()
    assert plan.blocked is not None
    assert plan.blocked.reason == Reason.SHARED_PVC_MATERIALIZER_PENDING


def test_a_model_being_deleted_keeps_serving_who_has_it() -> None:
    plan = decide(seen(model=replace(READY, deleting=True), mounts=(mount(),)), NOW)
    assert (plan.actions, plan.blocked) == ((), None)


def test_a_model_that_lost_its_status_deletes_nothing() -> None:
    unknown = ModelState(exists=True, phase="Pending")
    plan = decide(seen(model=unknown, mounts=(mount(),), fills=(fill(JobPhase.ACTIVE, 2),)), NOW)
    assert plan.actions == ()


def test_a_lost_claim_is_replaced() -> None:
    plan = decide(seen(listed=1, mounts=(mount(lost=True, bound=False),)), NOW)
    assert plan.actions == (DeleteClaim(claim(lost=True, bound=False)), StartFill(2, X, 10, "shared"))


MODELS = [
    READY,
    replace(READY, digest=Y),
    replace(READY, deleting=True),
    ModelState(exists=True, phase="Pending"),
    ModelState(exists=False),
]
MOUNTS: list[tuple[Mount, ...]] = [(), (mount(),), (mount(used=True),), (mount(bound=False),), (mount(2, Y),)]
FILLS: list[tuple[Fill, ...]] = [(), *[(fill(copy),) for copy in JobPhase], (fill(JobPhase.ACTIVE, 2, Y),)]
EVERYTHING = list(product(MODELS, MOUNTS, FILLS, [None, 1, 2], [True, False], [True, False]))


def test_rules_that_hold_in_every_situation() -> None:
    for model, mounts, fills, listed, wanted, complete in EVERYTHING:
        o = seen(model=model, mounts=mounts, fills=fills, listed=listed, wanted=wanted, complete=complete)
        plan = decide(o, NOW)
        kinds = [type(action) for action in plan.actions]
        if not complete:
            assert DeleteClaim not in kinds
            assert AbandonFill not in kinds
        if not wanted:
            assert not {StartFill, StartCopy, HandOver} & set(kinds)
            assert plan.blocked is None
        if StartFill in kinds:
            assert model.digest is not None
            assert not model.deleting
        for action in plan.actions:
            if isinstance(action, DeleteClaim) and model.exists and wanted:
                assert action.claim.digest != model.digest or action.claim.lost
        served = [one for one in mounts if one.claim.bound and one.claim.digest == model.digest]
        if wanted and model.digest is not None and not model.deleting and not served:
            assert plan.blocked is not None
