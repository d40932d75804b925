from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from aiinference.api.reasons import OrderPhase, OrderReason
from aiinference.probes import deadline, health
from aiinference.probes.client import Outcome
from aiinference.probes.health import Health, Verdict, pause, resumed, step, verdict

NOW = datetime(2026, 1, 1, tzinfo=UTC)
GOOD, BAD, BUSY = Outcome("", 0.1), Outcome("nobody answers.", 5.0), Outcome("", 0.1, busy=True)


def _after(answers: str, every: int = 20, start: Health | None = None) -> Health:
    """Return the health after answers written as ``+``, ``-``, and ``b`` for one that is busy."""
    now, found = NOW, start or Health()
    for answer in answers:
        found = step(found, {"+": GOOD, "-": BAD, "b": BUSY}[answer], now)
        now += timedelta(seconds=every)
    return found


def _said(found: Health) -> tuple[bool, OrderPhase, OrderReason]:
    what = verdict(found)
    return what.ready, what.phase, what.reason


WAITING = (False, OrderPhase.PENDING, OrderReason.HEALTH_CHECK_FAILED)
READY = (True, OrderPhase.READY, OrderReason.READY)
ILL = (False, OrderPhase.FAILED, OrderReason.SERVICE_UNHEALTHY)


def test_before_the_first_answer_an_order_waits_however_often_it_fails() -> None:
    assert _said(_after("")) == WAITING
    assert _said(_after("-" * 100)) == WAITING
    assert "nobody answers" in verdict(_after("-")).message


def test_the_first_good_answer_makes_ready() -> None:
    assert _said(_after("--+")) == READY
    assert _after("--++").ready_time == NOW + timedelta(seconds=40)


def test_a_ready_order_survives_single_failures() -> None:
    assert _said(_after("+--")) == READY
    assert _said(_after("+--+--+--")) == READY
    assert "last 2 checks failed" in verdict(_after("+--")).message


def test_several_failures_over_a_time_are_a_failure() -> None:
    assert _said(_after("+---")) == ILL


def test_several_failures_in_a_moment_are_not() -> None:
    assert _said(_after("+" + "-" * 29, every=1)) == READY
    assert _said(_after("+" + "-" * 31, every=1)) == ILL


def test_recovery_takes_more_than_one_good_answer_in_a_row() -> None:
    assert _said(_after("+---+")) == ILL
    assert _said(_after("+---+-+")) == ILL
    assert _said(_after("+---++")) == READY
    assert _said(_after("+---++--")) == READY


def test_an_order_that_is_busy_for_a_while_is_neither_well_nor_ill() -> None:
    for before in ("", "-", "+", "+-", "+---", "+---+"):
        busy, known = _after(before + "b" * 15), _after(before)
        assert (_said(busy), busy.failures, busy.successes) == (_said(known), known.failures, known.successes)
    assert _said(_after("+" + ("b" * 14 + "+") * 10)) == READY


def test_an_order_that_is_busy_for_minutes_on_end_is_not_known_to_be_well() -> None:
    ill = _after("+" + "b" * 18)
    assert _said(ill) == ILL
    assert "no room for a check" in verdict(ill).message
    assert _said(_after("+---+" + "b" * 60)) == ILL
    assert _said(_after("+" + "b" * 60 + "++")) == READY
    assert _said(_after("+" + "bbbbbbb--" * 3)) == ILL, "a hanging runtime behind a full gate"
    assert _said(_after("b" * 60)) == WAITING


def test_an_order_without_room_from_the_start_says_so() -> None:
    for answers in ("b", "bbb", "b" * 60):
        assert "no room for a check" in verdict(_after(answers)).message
    assert health.gist(_after("b")) != health.gist(_after("")), "it is told at once"
    assert health.gist(_after("b")) == health.gist(_after("b" * 60)), "and once"
    assert pause(_after("+b")) < pause(_after("+"))


def test_a_new_process_goes_on_where_the_old_one_was() -> None:
    for answers in ("", "---", "+", "+---"):
        before = _after(answers)
        again = resumed(verdict(before).reason, before.ready_time)
        assert (_said(again), again.ready_time) == (_said(before), before.ready_time)
    assert resumed("SomethingNewer", None) == Health()
    assert _said(_after("-", start=resumed(OrderReason.READY, NOW))) == READY


def test_what_is_in_doubt_is_looked_at_more_often() -> None:
    assert pause(_after("-")) < pause(_after("+-")) < pause(_after("+"))
    assert pause(_after("+---")) == pause(_after("+-"))


@given(st.text("+-", max_size=40), st.integers(1, 60))
def test_an_order_that_has_answered_never_waits_again(answers: str, every: int) -> None:
    now, found, seen = NOW, Health(), []
    for answer in answers:
        found = step(found, GOOD if answer == "+" else BAD, now)
        now += timedelta(seconds=every)
        seen.append(_said(found))
    first = answers.find("+")
    assert all(said == WAITING for said in (seen[:first] if first >= 0 else seen))
    assert first < 0 or WAITING not in seen[first:]
    fallen = [at for at in range(1, len(seen)) if (seen[at - 1], seen[at]) == (READY, ILL)]
    assert all(answers[at - health.FAILURES + 1 : at + 1] == "-" * health.FAILURES for at in fallen)


def test_every_verdict_says_something() -> None:
    for answers in ("", "-", "+", "+-", "+---", "+---+"):
        assert isinstance(verdict(_after(answers)), Verdict)
        assert verdict(_after(answers)).message.endswith(".")


def test_the_deadline_grows_with_the_model_and_has_an_end() -> None:
    sizes = [0, 253 << 20, 20 << 30, 183 << 30]
    found = [deadline.seconds(size) for size in sizes]
    assert found == sorted(found)
    assert found[0] == 300
    assert 1800 < found[-1] < 3600
    assert deadline.seconds(None) == 1800
    assert deadline.seconds(1 << 60) == 4 * 3600
