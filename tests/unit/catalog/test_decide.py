from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from aimodels.api.model import FORCE_DELETE_ANNOTATION, RETRY_ANNOTATION, ModelStatus, PublicationStatus
from aimodels.api.reasons import ConditionType, ModelEvent, ModelReason, Phase
from aimodels.catalog import publications, statuses
from aimodels.catalog.attempts import GIVE_UP
from aimodels.catalog.decide import decide
from aimodels.catalog.names import publication_transfer
from aimodels.catalog.state import (
    NOTHING,
    AddFinalizer,
    Bytes,
    Cause,
    CloseRepository,
    DeleteJobs,
    IssueUpload,
    Observation,
    Plan,
    PublicationJob,
    Queue,
    RefreshUpload,
    RemoveFinalizer,
    RemoveTag,
    RevokeTransfer,
    RevokeTransfers,
    StartPublication,
    StepBack,
    UploadObjects,
    WithdrawUpload,
)
from aimodels.catalog.uploads import IDLE
from aimodels.jobs.observed import Held, JobPhase
from kubekit.conditions import find
from tests.kit.observations import (
    CATALOG,
    DIGEST,
    NOW,
    PUBLISHED,
    UID,
    UPLOAD_TRANSFER,
    URL,
    model,
    publishing,
    status,
    waiting,
)

if TYPE_CHECKING:
    from datetime import datetime

    from aimodels.api.model import ModelSource

UNDO = (RevokeTransfers(), WithdrawUpload(), DeleteJobs(), CloseRepository())
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)


def phase(plan: Plan) -> str | None:
    return plan.status.phase if plan.status else None


def reason(plan: Plan, type_: ConditionType = ConditionType.READY) -> str:
    assert plan.status
    found = find(plan.status.conditions, type_)
    assert found
    return found.reason


def events(plan: Plan) -> list[str]:
    return [note.event for note in plan.notes]


# a new model


def test_a_new_model_gets_its_finalizer_before_its_upload() -> None:
    plan = decide(Observation(model(finalized=False), tags={}, transfers={}), NOW)

    assert plan.actions == (AddFinalizer(), IssueUpload())
    assert phase(plan) == Phase.WAIT_FOR_UPLOAD
    assert reason(plan) == ModelReason.WAITING_FOR_USER_UPLOAD
    assert events(plan) == [ModelEvent.UPLOAD_SESSION_ISSUED]


def test_a_new_model_adopts_what_is_published_already() -> None:
    o = Observation(model(finalized=False), tags={"published": DIGEST}, transfers={}, published=PUBLISHED)
    plan = decide(o, NOW)

    assert plan.actions == (AddFinalizer(),)
    assert phase(plan) == Phase.READY
    assert plan.status
    assert plan.status.artifact
    assert plan.status.artifact.digest == DIGEST


def test_an_adopted_model_loses_the_tag_of_an_old_upload() -> None:
    tags = {"published": DIGEST, "upload": DIGEST}
    plan = decide(Observation(model(), tags=tags, transfers={}, published=PUBLISHED), NOW)
    assert plan.actions == (RemoveTag("upload"),)


def test_a_new_model_goes_on_with_an_upload_that_is_there_already() -> None:
    plan = decide(Observation(model(), tags={"upload": DIGEST}, transfers={}), NOW)
    assert phase(plan) == Phase.PUBLISHING


@pytest.mark.parametrize("source", [URL, CATALOG])
def test_a_source_that_is_not_served_fails_at_once_and_makes_nothing(source: ModelSource) -> None:
    plan = decide(Observation(model(source=source, finalized=False)), NOW)

    assert phase(plan) == Phase.FAILED
    assert reason(plan) == ModelReason.UNSUPPORTED_SOURCE
    assert plan.actions == ()
    assert events(plan) == [ModelEvent.PUBLICATION_FAILED]


def test_a_refusal_is_told_once() -> None:
    refused = decide(Observation(model(source=URL)), NOW)
    assert decide(Observation(model(refused.status, URL)), NOW + SECOND) == NOTHING


def test_a_model_waits_while_the_registry_does_not_answer() -> None:
    plan = decide(Observation(model(), problem="no answer"), NOW)

    assert phase(plan) == Phase.PENDING
    assert reason(plan) == ModelReason.STORAGE_UNAVAILABLE
    assert plan.again


# waiting for the upload


def test_a_standing_upload_is_left_alone() -> None:
    plan = decide(waiting(), NOW)
    assert plan.actions == ()
    assert plan.notes == ()
    assert phase(plan) == Phase.WAIT_FOR_UPLOAD


def test_a_vanished_secret_is_made_again_for_the_transfer_that_stands() -> None:
    plan = decide(waiting(upload=None), NOW)
    assert plan.actions == (IssueUpload(UPLOAD_TRANSFER),)


def test_a_vanished_transfer_is_replaced_by_another_one() -> None:
    plan = decide(waiting(transfers={}), NOW)
    assert plan.actions == (IssueUpload(None),)


def test_a_secret_for_another_generation_is_replaced() -> None:
    other = UploadObjects(f"upload-{UID}-g2-ab", NOW)
    plan = decide(waiting(upload=other, transfers={f"upload-{UID}-g2-ab": Bytes(0)}), NOW)
    assert plan.actions == (IssueUpload(None),)


def test_a_secret_that_trusts_an_earlier_authority_is_written_again() -> None:
    plan = decide(waiting(upload=UploadObjects(UPLOAD_TRANSFER, NOW, current=False)), NOW)
    assert plan.actions == (RefreshUpload(),)
    assert phase(plan) == Phase.WAIT_FOR_UPLOAD
    assert plan.notes == ()


def test_an_idle_upload_lapses() -> None:
    issued = NOW - IDLE
    plan = decide(waiting(upload=UploadObjects(UPLOAD_TRANSFER, issued)), NOW)

    assert phase(plan) == Phase.FAILED
    assert reason(plan) == ModelReason.STALLED
    assert plan.afterwards == (RevokeTransfers(),)


def test_an_upload_lapses_by_its_last_byte_and_not_by_its_age() -> None:
    o = waiting(
        upload=UploadObjects(UPLOAD_TRANSFER, NOW - 3 * IDLE),
        transfers={UPLOAD_TRANSFER: Bytes(5, last_progress=NOW - IDLE + SECOND)},
    )
    assert phase(decide(o, NOW)) == Phase.WAIT_FOR_UPLOAD
    assert phase(decide(o, NOW + SECOND)) == Phase.FAILED


def test_bytes_on_their_way_are_told() -> None:
    plan = decide(waiting(transfers={UPLOAD_TRANSFER: Bytes(30, 100, 10.0, NOW)}), NOW)

    assert plan.status
    assert plan.status.transfer
    assert plan.status.transfer.bytes == 30
    assert plan.status.transfer.eta_seconds == 7
    assert plan.status.progress == "30%"


def test_an_upload_that_pauses_tells_no_speed() -> None:
    moving = decide(waiting(transfers={UPLOAD_TRANSFER: Bytes(30, 100, 10.0, NOW)}), NOW)
    assert moving.again == 30, "nothing tells that it paused"
    seen = waiting(model=model(moving.status), transfers={UPLOAD_TRANSFER: Bytes(30, 100, 9.0, NOW)})
    paused = decide(seen, NOW + 30 * SECOND)
    assert paused.status
    assert paused.status.transfer
    assert paused.status.transfer.bytes == 30
    assert paused.status.transfer.bytes_per_second is None
    assert paused.status.transfer.eta_seconds is None


def test_a_complete_upload_starts_the_publication() -> None:
    plan = decide(waiting(tags={"upload": DIGEST}), NOW)

    assert phase(plan) == Phase.PUBLISHING
    assert events(plan) == [ModelEvent.RAW_STAGED]
    assert plan.status
    assert plan.status.upload, "the secret stays for repeated requests until the end"


# publishing


def begun(**fields: Any) -> Observation:
    return publishing(model=model(status(Phase.PUBLISHING, **fields)), job=PublicationJob(JobPhase.ABSENT))


def test_a_free_place_is_taken() -> None:
    plan = decide(begun(), NOW)
    assert plan.actions == (StartPublication(1),)
    assert plan.status
    assert plan.status.publication == PublicationStatus(attempt=1, since=NOW)
    assert plan.again == 2, "nothing tells why its Pod does not run"


def test_a_full_house_is_waited_for_with_the_place_in_the_queue() -> None:
    plan = decide(replace(begun(), queue=Queue(position=3, free=2)), NOW)

    assert plan.actions == ()
    assert plan.status
    assert plan.status.transfer
    assert plan.status.transfer.queue_position == 3
    assert reason(plan) == ModelReason.PENDING


def test_a_job_that_the_cluster_refuses_is_told_with_what_to_do_and_tried_again_later() -> None:
    refused = publications.refused(model(), "exceeded quota: jobs", NOW)
    plan = decide(replace(begun(), obstacle=refused), NOW)

    assert plan.actions == ()
    assert plan.again == 60
    assert plan.status
    progressing = find(plan.status.conditions, ConditionType.PROGRESSING)
    assert progressing
    assert progressing.status == "False"
    assert "exceeded quota: jobs" in find_message(plan)
    assert "Raise the quota" in find_message(plan)
    assert plan.status.transfer
    assert plan.status.transfer.queue_position is None, "it does not wait for a place"

    later = replace(begun(), model=model(plan.status), obstacle=refused)
    assert decide(later, NOW + MINUTE).actions == (StartPublication(1),)


def test_a_wish_does_not_wait_for_the_cluster_to_allow_the_job() -> None:
    refused = publications.refused(model(), "exceeded quota: jobs", NOW)
    wished = model(status(Phase.PUBLISHING), annotations={RETRY_ANNOTATION: "1"})
    assert decide(replace(begun(), model=wished, obstacle=refused), NOW).actions == (StartPublication(1),)


@pytest.mark.parametrize(
    "publication", [None, PublicationStatus(attempt=7, retry_at=NOW + 5 * MINUTE, since=NOW - MINUTE)]
)
def test_a_wish_that_the_cluster_refuses_is_tried_once_and_then_told(
    publication: PublicationStatus | None,
) -> None:
    attempt = publication.attempt if publication else 1
    wish = {RETRY_ANNOTATION: "1"}
    wished = model(status(Phase.PUBLISHING, publication=publication), annotations=wish)
    seen = replace(begun(), model=wished)
    assert decide(seen, NOW).actions == (StartPublication(attempt),)

    # The refusal came before any status could be written.
    refused = replace(seen, obstacle=publications.refused(wished, "exceeded quota: jobs", NOW))
    plan = decide(refused, NOW)
    assert plan.actions == ()
    assert plan.again == 60
    assert plan.status
    assert plan.status.observed_retry == "1"
    assert "exceeded quota: jobs" in find_message(plan)

    told = replace(refused, model=model(plan.status, annotations=wish))
    assert decide(told, NOW + SECOND).actions == ()
    assert decide(told, NOW + MINUTE).actions == (StartPublication(attempt),), (
        "the pause is over with the wish"
    )
    another = replace(told, model=model(plan.status, annotations={RETRY_ANNOTATION: "2"}))
    assert decide(another, NOW + SECOND).actions == (StartPublication(attempt),)
    withdrawn = replace(told, model=model(plan.status))
    assert decide(withdrawn, NOW + SECOND).actions == (), "no wish is none"


def test_a_wish_waits_for_a_place_and_for_nothing_else() -> None:
    paused = PublicationStatus(attempt=7, retry_at=NOW + 5 * MINUTE, since=NOW - timedelta(hours=23))
    wished = model(status(Phase.PUBLISHING, publication=paused), annotations={RETRY_ANNOTATION: "1"})
    plan = decide(replace(begun(), model=wished, queue=Queue(position=2, free=1)), NOW)
    assert plan.actions == ()
    assert plan.status
    assert plan.status.observed_retry == "1"
    assert plan.status.publication == PublicationStatus(attempt=7, retry_at=NOW, since=NOW)

    later = model(plan.status, annotations={RETRY_ANNOTATION: "1"})
    free = decide(replace(begun(), model=later), NOW + MINUTE)
    assert free.actions == (StartPublication(7),)
    assert free.status
    assert free.status.publication
    assert free.status.publication.since == NOW + MINUTE, "its day begins with the place"


@pytest.mark.parametrize("job", [JobPhase.ABSENT, JobPhase.ACTIVE, JobPhase.FAILED, JobPhase.SUCCEEDED])
def test_a_received_file_that_the_registry_lost_fails_the_model_and_a_wish_asks_for_it_again(
    job: JobPhase,
) -> None:
    plan = decide(publishing(tags={}, job=PublicationJob(job)), NOW)
    assert phase(plan) == Phase.FAILED
    assert reason(plan) == ModelReason.PUBLICATION_FAILED
    assert RETRY_ANNOTATION in find_message(plan)
    assert RevokeTransfers() in plan.afterwards

    again = Observation(model(plan.status, annotations={RETRY_ANNOTATION: "1"}), tags={}, transfers={})
    assert phase(decide(again, NOW)) == Phase.PENDING


def test_a_running_job_is_followed() -> None:
    name = publication_transfer(UID, 1, 1)
    plan = decide(publishing(transfers={name: Bytes(50, 100, 25.0, NOW)}), NOW)

    assert plan.actions == ()
    assert plan.status
    assert plan.status.progress == "50%"
    assert reason(plan) == ModelReason.PACKAGING


def test_a_vanished_job_is_made_again() -> None:
    plan = decide(publishing(job=PublicationJob(JobPhase.ABSENT)), NOW)
    assert plan.actions == (StartPublication(1),)


def test_a_vanished_job_whose_transfer_was_revoked_is_followed_by_the_next_attempt() -> None:
    plan = decide(publishing(job=PublicationJob(JobPhase.ABSENT), transfers={}), NOW)
    assert plan.status
    assert plan.status.publication
    assert plan.status.publication.attempt == 2


@pytest.mark.parametrize("ended", [JobPhase.FAILED, JobPhase.SUCCEEDED])
def test_an_attempt_that_ended_early_is_followed_by_another_one_later(ended: JobPhase) -> None:
    plan = decide(publishing(job=PublicationJob(ended)), NOW)

    assert plan.actions == (RevokeTransfer(publication_transfer(UID, 1, 1)),)
    assert phase(plan) == Phase.PUBLISHING
    assert plan.status
    following = PublicationStatus(attempt=2, retry_at=NOW + 2 * SECOND, since=NOW)
    assert plan.status.publication == following
    assert plan.again == 2


def test_the_next_attempt_begins_when_its_time_has_come() -> None:
    later = PublicationStatus(attempt=2, retry_at=NOW + SECOND)
    o = begun(publication=later)

    assert decide(o, NOW).actions == ()
    assert decide(o, NOW).again == 1
    assert decide(o, NOW + SECOND).actions == (StartPublication(2),)


def test_a_wish_to_retry_does_not_wait_for_the_back_off() -> None:
    later = PublicationStatus(attempt=7, retry_at=NOW + timedelta(minutes=5))
    wished = model(status(Phase.PUBLISHING, publication=later), annotations={RETRY_ANNOTATION: "now"})
    plan = decide(publishing(model=wished, job=PublicationJob(JobPhase.ABSENT)), NOW)
    assert plan.actions == (StartPublication(7),)


def test_the_back_off_grows_to_five_minutes() -> None:
    delays = [decide(publishing(n, job=PublicationJob(JobPhase.FAILED)), NOW).again for n in (1, 2, 3, 9, 99)]
    assert delays == [2, 4, 8, 300, 300]


def test_a_permanent_verdict_fails_the_model() -> None:
    verdict = Cause(ModelReason.PUBLICATION_FAILED, "no tensors")
    plan = decide(publishing(job=PublicationJob(JobPhase.FAILED, verdict=verdict)), NOW)

    assert phase(plan) == Phase.FAILED
    assert reason(plan) == ModelReason.PUBLICATION_FAILED
    assert find_message(plan).startswith("no tensors")
    assert plan.afterwards == (RevokeTransfers(),)


HELD = "0/3 nodes are available: 3 Insufficient memory."


def held(seconds: float, **changes: Any) -> Observation:
    """Return what is seen of a publication whose Pod waits for a node since then."""
    since = NOW - timedelta(seconds=seconds)
    waits = PublicationJob(JobPhase.ACTIVE, since=since, held=Held(HELD, since))
    return publishing(**{"job": waits} | changes)


def test_what_holds_a_pod_up_is_told_within_seconds_in_the_clusters_words() -> None:
    fresh = decide(held(2), NOW)
    assert reason(fresh) == ModelReason.PACKAGING
    assert fresh.again == 2, "nothing else tells when it changes"

    told = decide(held(6), NOW)
    assert told.actions == ()
    assert reason(told, ConditionType.PROGRESSING) == ModelReason.PENDING
    assert find_message(told) == f"The publication's Pod does not run: {HELD}"
    assert phase(told) == Phase.PUBLISHING

    running = replace(held(6), job=PublicationJob(JobPhase.ACTIVE, since=NOW, running=True))
    assert decide(running, NOW).again == 60


def test_a_pod_that_does_not_run_gives_its_place_to_somebody_who_waits() -> None:
    crowded = Queue(crowded=True)
    assert decide(held(59, queue=crowded), NOW).actions == ()
    assert decide(held(7200), NOW).actions == (), "while nobody waits it stays where it can begin at once"

    plan = decide(held(60, queue=crowded), NOW)
    (action,) = plan.actions
    assert isinstance(action, StepBack)
    assert action.attempt == 1
    assert HELD in find_message(plan)
    assert reason(plan) == ModelReason.PENDING
    assert plan.status
    assert plan.status.publication
    assert (plan.status.publication.attempt, plan.status.publication.retry_at) == (2, action.obstacle.until)

    later = replace(
        begun(), model=model(plan.status), obstacle=action.obstacle, queue=Queue(position=3, free=0)
    )
    assert decide(later, NOW).status == plan.status
    waits = decide(later, action.obstacle.until)
    assert "number 3 in the queue" in find_message(waits)
    assert HELD in find_message(waits), "what held it up is not forgotten"
    assert decide(replace(later, queue=Queue()), action.obstacle.until).actions == (StartPublication(2),)


@pytest.mark.parametrize(
    ("seconds", "outdated", "crowded", "wish", "replaced"),
    [
        (59, True, False, False, False),
        (60, True, False, False, True),
        (60, True, True, False, True),
        (7200, False, False, False, False),
        (1, False, False, True, True),
        (1, False, True, True, True),
    ],
)
def test_a_pod_that_others_would_run_for_is_replaced(
    seconds: int, *, outdated: bool, crowded: bool, wish: bool, replaced: bool
) -> None:
    """One with corrected settings, or after a wish; whoever asked for it does not pause as well."""
    seen = held(seconds, queue=Queue(crowded=crowded))
    waits = Held(HELD, NOW - seconds * SECOND, outdated=outdated)
    annotations = {RETRY_ANNOTATION: "1"} if wish else {}
    seen = replace(
        seen, job=replace(seen.job, held=waits), model=model(seen.model.status, annotations=annotations)
    )
    plan = decide(seen, NOW)
    assert [type(one) for one in plan.actions] == ([StepBack] if replaced else [])
    assert plan.status
    assert plan.status.publication
    assert plan.status.publication.attempt == (2 if replaced else 1)
    if replaced:
        pause = (plan.status.publication.retry_at or NOW) - NOW
        assert (pause > timedelta()) is (crowded and not wish)
        assert ("was asked for" in find_message(plan)) is wish
        assert ("settings are others now" in find_message(plan)) is (outdated and not wish)


def test_a_wish_leaves_a_pod_alone_that_runs() -> None:
    old = PublicationStatus(attempt=3, since=NOW - timedelta(hours=23))
    wished = model(status(Phase.PUBLISHING, publication=old), annotations={RETRY_ANNOTATION: "1"})
    plan = decide(publishing(3, model=wished), NOW)
    assert plan.actions == ()
    assert plan.status
    assert plan.status.publication == PublicationStatus(attempt=3, since=NOW), "its day begins anew"


def test_silence_is_told_as_stalled_and_ends_in_failure_after_a_day() -> None:
    stalled = decide(held(180), NOW)
    assert phase(stalled) == Phase.PUBLISHING
    assert reason(stalled) == ModelReason.STALLED
    assert HELD in find_message(stalled)

    dead = decide(held(GIVE_UP.total_seconds()), NOW)
    assert phase(dead) == Phase.FAILED
    assert HELD in find_message(dead)
    assert dead.afterwards == (RevokeTransfers(), DeleteJobs()), "its Pod may wait for a node for ever"


# a publication that does not come further


def failing(plan: Plan | None, now: datetime, moved: Bytes | None = None) -> Plan:
    """Return what follows when the attempt of the plan before ends early."""
    old = plan.status if plan else status(Phase.PUBLISHING, publication=PublicationStatus(attempt=1))
    assert old
    assert old.publication
    name = publication_transfer(UID, 1, old.publication.attempt)
    ended = publishing(
        model=model(old),
        transfers={name: moved} if moved else {},
        job=PublicationJob(JobPhase.FAILED, words="no answer from dmcr"),
    )
    return decide(ended, now)


def again(plan: Plan, now: datetime) -> Plan:
    """Return what follows when the pause after an attempt is over."""
    return decide(publishing(model=model(plan.status), job=PublicationJob(JobPhase.ABSENT)), now)


def test_attempts_that_come_no_further_end_after_a_day_and_a_wish_begins_them_again() -> None:
    now, plan, tries = NOW, failing(None, NOW), 1
    while phase(plan) == Phase.PUBLISHING:
        assert plan.again
        now += plan.again * SECOND
        plan = again(plan, now)
        assert isinstance(plan.actions[0], StartPublication)
        now += 10 * SECOND
        tries += 1
        # Every attempt reads the same hundred bytes before it dies: that is no progress.
        plan = failing(plan, now, Bytes(100, 1000, last_progress=now))
    assert phase(plan) == Phase.FAILED
    assert reason(plan) == ModelReason.STALLED
    assert "came no further for 24 hours" in find_message(plan)
    assert "no answer from dmcr" in find_message(plan)
    assert RETRY_ANNOTATION in find_message(plan)
    assert GIVE_UP < now - NOW < GIVE_UP + timedelta(minutes=10)
    assert tries > 250

    wished = model(plan.status, annotations={RETRY_ANNOTATION: "1"})
    retried = decide(Observation(wished, tags={"upload": DIGEST}, transfers={}), now)
    assert phase(retried) == Phase.PUBLISHING, "the bytes stay good"
    begun_again = again(retried, now)
    assert begun_again.status
    assert begun_again.status.publication
    assert begun_again.status.publication.since == now
    assert phase(failing(begun_again, now + MINUTE)) == Phase.PUBLISHING


def test_attempts_that_come_further_go_on_for_ever() -> None:
    now, plan = NOW, failing(None, NOW)
    for number in range(20):
        now += timedelta(hours=6)
        plan = failing(again(plan, now), now + SECOND, Bytes(100 + number, 1000, last_progress=now))
        assert phase(plan) == Phase.PUBLISHING


def test_waiting_for_a_place_is_no_reason_to_fail() -> None:
    plan = failing(None, NOW)
    begun_late = again(plan, NOW + 3 * GIVE_UP)
    assert begun_late.actions == (StartPublication(2),)
    assert phase(failing(begun_late, NOW + 3 * GIVE_UP + MINUTE)) == Phase.PUBLISHING


def test_a_cluster_that_refuses_the_job_for_a_day_fails_the_model() -> None:
    now = NOW
    plan = decide(replace(begun(), obstacle=publications.refused(model(), "no quota", now)), now)
    while phase(plan) == Phase.PUBLISHING:
        now += timedelta(hours=1)
        seen = replace(
            begun(), model=model(plan.status), obstacle=publications.refused(model(), "no quota", now)
        )
        plan = decide(seen, now)
    assert now - NOW == GIVE_UP
    assert reason(plan) == ModelReason.STALLED
    assert "no quota" in find_message(plan)


def test_an_attempt_that_moves_is_let_go_on_though_others_came_further() -> None:
    old = PublicationStatus(attempt=2, since=NOW - 2 * GIVE_UP, furthest_bytes=900)
    name = publication_transfer(UID, 1, 2)
    seen = publishing(
        2,
        model=model(status(Phase.PUBLISHING, publication=old)),
        transfers={name: Bytes(100, 1000, last_progress=NOW)},
    )
    assert phase(decide(seen, NOW)) == Phase.PUBLISHING


def test_why_an_attempt_ended_is_told_until_the_next_one_begins() -> None:
    plan = failing(None, NOW)
    assert "no answer from dmcr" in find_message(plan)
    assert again(plan, NOW + SECOND).status == plan.status
    outage = decide(publishing(model=model(plan.status), problem="no answer"), NOW + SECOND)
    assert find_message(again(outage, NOW + SECOND)) == find_message(plan)


def test_numbers_of_a_speed_go_when_nothing_moves() -> None:
    name = publication_transfer(UID, 1, 1)
    moving = decide(publishing(transfers={name: Bytes(50, 100, 25.0, NOW)}), NOW)
    assert moving.status
    assert moving.status.transfer
    assert moving.status.transfer.bytes_per_second == 25
    seen = publishing(model=model(moving.status), transfers={name: Bytes(50, 100, 0.0, NOW)})
    stalled = decide(seen, NOW + 3 * MINUTE)
    backing_off = failing(moving, NOW + SECOND)
    for plan in (stalled, backing_off):
        assert plan.status
        assert plan.status.transfer
        assert plan.status.transfer.bytes == 50
        assert plan.status.transfer.bytes_per_second is None
        assert plan.status.transfer.eta_seconds is None


def test_a_publication_that_is_there_makes_the_model_ready() -> None:
    plan = decide(publishing(published=PUBLISHED, tags={"upload": DIGEST, "published": DIGEST}), NOW)

    assert phase(plan) == Phase.READY
    assert reason(plan) == ModelReason.READY
    assert events(plan) == [ModelEvent.PUBLICATION_SUCCEEDED]
    assert plan.status
    assert plan.status.upload, "what is still to be tidied up stays named"
    assert plan.status.publication is None


def test_an_artifact_that_is_not_whole_fails_the_model() -> None:
    broken = Cause(ModelReason.MANIFEST_INVALID, "blob missing")
    plan = decide(publishing(broken=broken), NOW)
    assert phase(plan) == Phase.FAILED
    assert reason(plan) == ModelReason.MANIFEST_INVALID


def test_an_outage_of_the_registry_changes_neither_phase_nor_attempt() -> None:
    o = publishing(problem="no answer", tags=None, transfers=None)
    plan = decide(o, NOW)

    assert phase(plan) == Phase.PUBLISHING
    assert reason(plan) == ModelReason.STORAGE_UNAVAILABLE
    assert plan.status
    assert plan.status.publication == PublicationStatus(attempt=1)
    assert plan.actions == ()


# ready


def test_a_ready_model_gets_back_the_finalizer_that_an_uninstallation_took() -> None:
    stored = status(Phase.READY)
    assert decide(Observation(model(stored, finalized=False)), NOW).actions == (AddFinalizer(),)
    assert decide(Observation(model(stored)), NOW) == NOTHING


def test_a_ready_model_is_tidied_up_once() -> None:
    left = status(Phase.READY, upload=status(Phase.PUBLISHING).upload)
    plan = decide(Observation(model(left)), NOW)

    assert plan.actions == (RevokeTransfers(), WithdrawUpload(), RemoveTag("upload"))
    assert plan.status == status(Phase.READY)
    assert decide(Observation(model(plan.status)), NOW) == NOTHING


# failed


def failed(reason_: ModelReason, **fields: Any) -> ModelStatus:
    made = statuses.failed(
        model(status(Phase.PUBLISHING, publication=PublicationStatus(attempt=4))),
        NOW,
        Cause(reason_, "why"),
    )
    return msgspec.structs.replace(made, upload=None, **fields)


def test_a_failed_model_stays_as_it_is() -> None:
    assert decide(Observation(model(failed(ModelReason.PUBLICATION_FAILED))), NOW) == NOTHING


def test_a_failed_model_gives_back_its_upload() -> None:
    left = failed(ModelReason.PUBLICATION_FAILED)
    left = msgspec.structs.replace(left, upload=status(Phase.PUBLISHING).upload)
    plan = decide(Observation(model(left)), NOW)
    assert plan.actions == (RevokeTransfers(), WithdrawUpload())
    assert plan.status
    assert plan.status.upload is None


def test_a_wish_to_retry_starts_from_nothing_when_the_bytes_were_bad() -> None:
    wished = model(failed(ModelReason.PUBLICATION_FAILED), annotations={RETRY_ANNOTATION: "1"})
    plan = decide(Observation(wished, tags={"upload": DIGEST}, transfers={}), NOW)

    assert plan.actions == UNDO
    assert phase(plan) == Phase.PENDING
    assert plan.status
    assert plan.status.observed_retry == "1"
    assert plan.status.publication
    assert plan.status.publication.attempt == 5, "a revoked attempt's number is never used again"


def test_a_wish_to_retry_keeps_bytes_that_were_not_the_reason() -> None:
    wished = model(failed(ModelReason.INSUFFICIENT_STORAGE), annotations={RETRY_ANNOTATION: "1"})
    plan = decide(Observation(wished, tags={"upload": DIGEST}, transfers={}), NOW)

    assert plan.actions == (RemoveTag("published"),)
    assert phase(plan) == Phase.PUBLISHING
    assert plan.status
    assert plan.status.publication == PublicationStatus(attempt=5, retry_at=NOW)


def test_the_same_wish_is_not_granted_twice() -> None:
    again = failed(ModelReason.PUBLICATION_FAILED, observed_retry="1")
    wished = model(again, annotations={RETRY_ANNOTATION: "1"})
    assert decide(Observation(wished), NOW) == NOTHING


def test_a_source_that_a_newer_version_serves_is_begun_by_it() -> None:
    refused = decide(Observation(model(source=URL)), NOW).status
    plan = decide(Observation(model(refused, finalized=False), image="newer"), NOW)

    assert phase(plan) == Phase.PENDING
    assert plan.actions == (AddFinalizer(),)


def test_an_upload_of_a_kind_that_was_not_served_is_judged_once_by_each_version() -> None:
    refused = failed(ModelReason.UNSUPPORTED_SOURCE, publication=PublicationStatus(attempt=4, image="this"))
    o = Observation(model(refused), tags={"upload": DIGEST}, transfers={}, image="this")
    assert decide(o, NOW) == NOTHING

    plan = decide(replace(o, image="newer"), NOW)
    assert plan.actions == (RemoveTag("published"),)
    assert phase(plan) == Phase.PUBLISHING
    assert plan.status
    assert plan.status.publication == PublicationStatus(attempt=5, retry_at=NOW)

    begun = decide(replace(o, model=model(plan.status), image="newer"), NOW)
    assert begun.actions == (StartPublication(5),)
    assert begun.status
    assert begun.status.publication == PublicationStatus(attempt=5, image="newer", since=NOW)


@pytest.mark.parametrize("old", [Phase.WAIT_FOR_UPLOAD, Phase.PUBLISHING, Phase.FAILED])
def test_a_corrected_source_undoes_what_the_other_one_made(old: Phase) -> None:
    plan = decide(Observation(model(status(old), URL, generation=2)), NOW)

    assert plan.actions == UNDO
    assert phase(plan) == Phase.PENDING
    assert plan.status
    assert plan.status.observed_generation == 2


def test_a_stored_model_is_never_undone_by_another_generation() -> None:
    assert decide(Observation(model(status(Phase.READY), generation=2)), NOW) == NOTHING


# deleting


@pytest.mark.parametrize("old", [None, *Phase])
def test_a_deletion_removes_everything_in_every_phase(old: Phase | None) -> None:
    going = model(status(old) if old else None, deleting=True)
    plan = decide(Observation(going), NOW)

    assert phase(plan) == Phase.DELETING
    assert plan.afterwards == (*UNDO, RemoveFinalizer())


def test_a_deletion_without_our_finalizer_is_not_ours() -> None:
    assert decide(Observation(model(deleting=True, finalized=False)), NOW) == NOTHING


def test_a_model_in_use_waits_and_says_for_whom() -> None:
    going = model(status(Phase.READY), deleting=True)
    plan = decide(Observation(going, consumers=("Deployment team/app", "Pod team/app-1")), NOW)

    assert plan.afterwards == ()
    assert reason(plan) == ModelReason.IN_USE
    assert "Deployment team/app, Pod team/app-1" in find_message(plan)
    assert plan.again


def test_what_stands_in_a_removals_way_is_told_until_it_is_over() -> None:
    hindered = statuses.deleting(
        model(status(Phase.READY)), NOW, ModelReason.DELETING, "It cannot be removed: secrets are forbidden."
    )
    plan = decide(Observation(model(hindered, deleting=True)), NOW + MINUTE)
    assert find_message(plan) == "It cannot be removed: secrets are forbidden."
    assert plan.afterwards == (*UNDO, RemoveFinalizer())

    used = statuses.deleting(model(status(Phase.READY)), NOW, ModelReason.IN_USE, "The model is used.")
    assert "being removed" in find_message(decide(Observation(model(used, deleting=True)), NOW))


def test_a_long_list_of_consumers_is_cut() -> None:
    going = model(status(Phase.READY), deleting=True)
    plan = decide(Observation(going, consumers=tuple(f"Pod team/p{n}" for n in range(500))), NOW)
    assert "and 490 more" in find_message(plan)


def test_a_forced_deletion_does_not_wait() -> None:
    going = model(status(Phase.READY), deleting=True, annotations={FORCE_DELETE_ANNOTATION: "true"})
    plan = decide(Observation(going, consumers=("Pod team/app-1",)), NOW)
    assert plan.afterwards == (*UNDO, RemoveFinalizer())


def find_message(plan: Plan) -> str:
    assert plan.status
    found = find(plan.status.conditions, ConditionType.READY)
    assert found
    return found.message
