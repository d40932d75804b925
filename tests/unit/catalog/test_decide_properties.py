"""What holds for every observation: no mistake, no flapping, no way around the order of things."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from aimodels.api.model import (
    FINALIZER,
    RETRY_ANNOTATION,
    ModelStatus,
    PublicationStatus,
    TransferStatus,
    UploadStatus,
)
from aimodels.api.reasons import ConditionType, ModelReason, Phase, TransferStage
from aimodels.catalog.decide import decide
from aimodels.catalog.names import publication_transfer
from aimodels.catalog.report import same
from aimodels.catalog.state import (
    AddFinalizer,
    Bytes,
    Cause,
    CloseRepository,
    Observation,
    Obstacle,
    Plan,
    PublicationJob,
    Queue,
    RemoveFinalizer,
    StartPublication,
    UploadObjects,
)
from aimodels.jobs.observed import Held, JobPhase
from kubekit.conditions import first_not_true, is_true
from tests.kit.observations import (
    CATALOG,
    DIGEST,
    NOW,
    PUBLISHED,
    UID,
    UPLOAD,
    UPLOAD_TRANSFER,
    URL,
    model,
    status,
)

MOMENTS = st.integers(-3 * 86400, 86400).map(lambda seconds: NOW + timedelta(seconds=seconds))
COUNTS = st.integers(0, 10**12)
BYTES = st.builds(
    Bytes,
    COUNTS,
    st.none() | COUNTS,
    st.none() | st.floats(0, 1e9),
    st.none() | MOMENTS,
)
PUBLICATIONS = st.none() | st.builds(
    PublicationStatus,
    attempt=st.integers(1, 50),
    retry_at=st.none() | MOMENTS,
    since=st.none() | MOMENTS,
    furthest_bytes=st.none() | COUNTS,
)
TRANSFERS = st.none() | st.builds(
    TransferStatus,
    stage=st.sampled_from(TransferStage),
    bytes=st.none() | COUNTS,
    total_bytes=st.none() | COUNTS,
    queue_position=st.none() | st.integers(1, 100),
)
UPLOADS = st.none() | st.builds(UploadStatus, secret_name=st.just("s"), expires_at=st.none() | MOMENTS)


@st.composite
def statuses(draw: st.DrawFn) -> ModelStatus | None:
    phase = draw(st.none() | st.sampled_from([one for one in Phase if one is not Phase.DELETING]))
    if phase is None:
        return None
    return msgspec.structs.replace(
        status(phase),
        publication=draw(PUBLICATIONS),
        transfer=draw(TRANSFERS),
        upload=draw(UPLOADS),
        observed_retry=draw(st.sampled_from([None, "1", "2"])),
    )


@st.composite
def observations(draw: st.DrawFn) -> Observation:
    old = draw(statuses())
    wish = draw(st.sampled_from([None, "1", "2"]))
    finalized = draw(st.booleans())
    seen = model(
        old,
        draw(st.sampled_from([UPLOAD, URL, CATALOG])),
        finalized=finalized,
        deleting=draw(st.booleans()),
        generation=draw(st.sampled_from([1, 2])),
        annotations={RETRY_ANNOTATION: wish} if wish else {},
    )
    attempts = {publication_transfer(UID, 1, n) for n in (1, 2)}
    names = draw(st.sets(st.sampled_from([UPLOAD_TRANSFER, *sorted(attempts)])))
    verdict = draw(st.none() | st.just(Cause(ModelReason.PUBLICATION_FAILED, "why")))
    job = PublicationJob(
        draw(st.sampled_from(JobPhase)),
        draw(st.none() | MOMENTS),
        verdict,
        words=draw(st.sampled_from(["", "no answer"])),
        running=draw(st.booleans()),
        held=draw(st.none() | st.builds(Held, st.just("no node"), MOMENTS)),
    )
    tags = draw(st.sets(st.sampled_from(["upload", "published"])))
    problem = draw(st.sampled_from(["", "no answer"]))
    return Observation(
        seen,
        problem=problem,
        tags=None if problem else dict.fromkeys(tags, DIGEST),
        transfers=None if problem else {name: draw(BYTES) for name in names},
        upload=draw(st.none() | st.builds(UploadObjects, st.just(UPLOAD_TRANSFER), MOMENTS)),
        job=job,
        published=draw(st.sampled_from([None, PUBLISHED])) if "published" in tags else None,
        queue=Queue(draw(st.integers(1, 9)), draw(st.integers(0, 4)), draw(st.booleans())),
        obstacle=draw(st.none() | st.builds(Obstacle, st.just("no quota"), MOMENTS)),
        consumers=draw(st.sampled_from([(), ("Pod a/b",)])),
    )


def after(o: Observation, plan: Plan) -> Observation:
    """Return the observation with what the plan wrote, everything else as it was."""
    metadata = o.model.metadata
    if any(isinstance(one, AddFinalizer) for one in plan.actions):
        metadata = msgspec.structs.replace(metadata, finalizers=[FINALIZER])
    new = o.model.status if plan.status is None else plan.status
    return replace(o, model=msgspec.structs.replace(o.model, metadata=metadata, status=new))


def a_status_is_whole_and_says_the_first_condition_that_fails(o: Observation, plan: Plan) -> None:
    if plan.status is None or plan.status is o.model.status:
        return
    conditions = plan.status.conditions
    types = [one.type for one in conditions]
    assert len(set(types)) == len(types)
    assert types == [str(one) for one in ConditionType if str(one) in types]
    standing = first_not_true([one for one in conditions if one.type != ConditionType.READY])
    ready = conditions[-1]
    assert ready.type == ConditionType.READY
    assert (ready.status, ready.reason) == (
        ("True", "Ready") if standing is None else ("False", standing.reason)
    )
    assert is_true(conditions, "Ready") == (plan.status.phase == Phase.READY)
    assert msgspec.convert(msgspec.to_builtins(plan.status), ModelStatus) == plan.status


def nothing_is_done_for_a_model_without_our_finalizer(o: Observation, plan: Plan) -> None:
    if FINALIZER in o.model.metadata.finalizers or not plan.actions:
        return
    assert plan.actions[0] == AddFinalizer()


def ready_is_said_only_of_what_was_read_back(o: Observation, plan: Plan) -> None:
    if plan.status is not None and plan.status.phase == Phase.READY:
        was_ready = o.model.status is not None and o.model.status.phase == Phase.READY
        assert was_ready or o.published is not None


def a_stored_artifact_is_given_up_by_deletion_only(o: Observation, plan: Plan) -> None:
    closes = CloseRepository() in (*plan.actions, *plan.afterwards)
    if closes and o.model.status is not None and o.model.status.artifact is not None:
        assert o.model.metadata.deleting


def the_object_goes_only_after_its_repository_was_closed(o: Observation, plan: Plan) -> None:
    if RemoveFinalizer() in plan.afterwards:
        assert plan.afterwards.index(CloseRepository()) < plan.afterwards.index(RemoveFinalizer())


def a_full_house_starts_nothing_new(o: Observation, plan: Plan) -> None:
    if o.queue.may_start or not any(isinstance(one, StartPublication) for one in plan.actions):
        return
    # Only an attempt that was begun and lost its Job is made again.
    assert o.model.status is not None
    assert o.model.status.publication is not None
    assert o.model.status.publication.retry_at is None


def an_attempt_is_never_counted_backwards(o: Observation, plan: Plan) -> None:
    old = o.model.status.publication if o.model.status else None
    new = plan.status.publication if plan.status else None
    if old is not None and new is not None:
        assert new.attempt >= old.attempt


@given(observations())
def test_looking_again_at_the_same_world_settles(o: Observation) -> None:
    """A model whose world stands still is written a few times at most and then never again."""
    for _ in range(6):
        plan = decide(o, NOW)
        following = after(o, plan)
        if plan.status is None or same(o.model.status, plan.status):
            return
        o = following
    assert o.job.phase in (JobPhase.FAILED, JobPhase.SUCCEEDED, JobPhase.ABSENT), "status keeps changing"


RULES = (
    a_status_is_whole_and_says_the_first_condition_that_fails,
    nothing_is_done_for_a_model_without_our_finalizer,
    ready_is_said_only_of_what_was_read_back,
    a_stored_artifact_is_given_up_by_deletion_only,
    the_object_goes_only_after_its_repository_was_closed,
    a_full_house_starts_nothing_new,
    an_attempt_is_never_counted_backwards,
)


@settings(max_examples=200)
@given(observations())
def test_every_rule_holds_for_every_observation(o: Observation) -> None:
    plan = decide(o, NOW)
    for rule in RULES:
        rule(o, plan)
    assert decide(o, NOW) == plan, "decisions are pure"
