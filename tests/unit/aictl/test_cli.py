"""The command line: what it refuses at once, its codes, its help, its voice in terminals and pipes."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner, Result

from aictl import running
from aictl.__main__ import main
from aictl.cluster import refusal
from aictl.exits import Exit, Failure
from aictl.kubeconfig import Target
from aictl.show import Show
from kubekit.errors import NotFound
from tests.kit.models import gguf_bytes, tar

if TYPE_CHECKING:
    from pathlib import Path

NO_CLUSTER = {"KUBECONFIG": "/nonexistent"}


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, env=NO_CLUSTER)


def test_help_names_every_command_and_code() -> None:
    result = _run("--help")
    assert result.exit_code == 0
    for word in ("inspect", "models", "retry", "upload", "wait", "5 time is over"):
        assert word in result.output


@pytest.mark.parametrize("command", ["inspect", "models", "retry", "upload", "wait"])
def test_every_command_explains_itself(command: str) -> None:
    result = _run(command, "--help")
    assert result.exit_code == 0
    assert "--json" in result.output


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("model.bin", b"x" * 600, "files of this kind are not taken"),
        ("model.gguf", b"GGUX" + b"x" * 600, "not those of a .gguf file"),
        ("weights.safetensors", b"x" * 600, "send both in a .tar"),
        ("model.zip", b"PK\x03\x04" + b"x" * 600, "not taken by this version yet"),
    ],
)
def test_what_is_no_model_is_refused_before_the_cluster_is_asked(
    tmp_path: Path, name: str, content: bytes, words: str
) -> None:
    (tmp_path / name).write_bytes(content)
    result = _run("upload", "m", str(tmp_path / name))
    assert result.exit_code == Exit.USAGE
    assert words in result.stderr


@pytest.mark.parametrize("name", ["cut.gguf", "cut.tar"])
def test_a_file_that_was_cut_off_is_refused_before_the_cluster_is_asked(tmp_path: Path, name: str) -> None:
    whole = gguf_bytes() if name == "cut.gguf" else tar({"m.gguf": gguf_bytes()})
    (tmp_path / name).write_bytes(whole[: len(whole) // 2])
    inspected, uploaded = _run("inspect", str(tmp_path / name)), _run("upload", "m", str(tmp_path / name))
    assert (inspected.exit_code, uploaded.exit_code) == (Exit.USAGE, Exit.USAGE)
    assert uploaded.stderr.startswith(f"aictl: Nothing was uploaded. {name}: ")


@pytest.mark.parametrize(
    ("resumes", "said"),
    [
        (True, "aictl: interrupted; the same command goes on where this one stopped\n"),
        (False, "aictl: interrupted\n"),
    ],
)
def test_only_a_command_that_goes_on_says_so_when_it_is_interrupted(*, resumes: bool, said: str) -> None:
    async def interrupted() -> None:
        raise KeyboardInterrupt

    @click.command()
    def command() -> None:
        running.run(interrupted(), resumes=resumes)

    result = CliRunner().invoke(command)
    assert (result.exit_code, result.stderr) == (Exit.INTERRUPTED, said)


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ('namespaces "nowhere" not found', "There is no namespace nowhere"),
        ("the server could not find the requested resource", "Is ai-models installed"),
    ],
)
def test_a_missing_namespace_is_told_from_a_missing_module(message: str, said: str) -> None:
    failure = refusal(NotFound(404, "NotFound", message), "Model nowhere/m cannot be created")
    assert said in failure.message
    assert ("Is ai-models installed" in failure.message) is (said == "Is ai-models installed")


def test_a_name_that_kubernetes_would_refuse_is_refused_here(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(b"GGUF" + bytes(600))
    result = _run("upload", "Not_A_Name", str(tmp_path / "m.gguf"))
    assert result.exit_code == Exit.USAGE
    assert "lower-case letters" in result.stderr


def test_a_missing_file_is_wrong_use() -> None:
    assert _run("upload", "m", "/nonexistent.gguf").exit_code == Exit.USAGE


@pytest.mark.parametrize("command", [("models",), ("wait", "m"), ("retry", "m")])
def test_without_a_cluster_it_says_what_is_missing(command: tuple[str, ...]) -> None:
    result = _run(*command)
    assert result.exit_code == Exit.USAGE
    assert "There is no cluster to talk to" in result.stderr
    assert result.stdout == ""


def test_a_context_that_is_not_there_is_named(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("apiVersion: v1\nkind: Config\nclusters: []\ncontexts: []\nusers: []\n")
    result = _run("models", "--kubeconfig", str(config), "--context", "nowhere")
    assert result.exit_code == Exit.USAGE
    assert "nowhere" in result.stderr


@pytest.mark.parametrize("content", ["", "[]", ": : {", "apiVersion: v1", "clusters: 3", "\ufffe"])
def test_what_is_no_kubeconfig_is_told_in_one_line(tmp_path: Path, content: str) -> None:
    config = tmp_path / "config"
    config.write_text(content)
    result = _run("models", "--kubeconfig", str(config))
    assert (result.exit_code, result.stderr.count("\n")) == (Exit.USAGE, 1)
    assert f"{config} is not a kubeconfig that can be read" in result.stderr


@pytest.mark.parametrize("server", ["https://127.0.0.1:1", "http://nowhere.invalid", "nowhere"])
def test_a_cluster_that_does_not_answer_is_told_at_once(tmp_path: Path, server: str) -> None:
    config = tmp_path / "config"
    config.write_text(
        f"clusters: [{{name: x, cluster: {{server: '{server}'}}}}]\ncurrent-context: x\n"
        "contexts: [{name: x, context: {cluster: x}}]\n"
    )
    (tmp_path / "m.gguf").write_bytes(gguf_bytes())
    for command in (("models",), ("wait", "m"), ("upload", "m", str(tmp_path / "m.gguf"))):
        result = _run(*command, "--kubeconfig", str(config))
        assert (result.exit_code, result.stderr.count("\n")) == (Exit.FAILED, 1), result.stderr
        assert "The Kubernetes API does not answer" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("wait", "a/b/c"),
        ("wait", "A"),
        ("wait", "x/"),
        ("retry", "../secrets/x"),
        ("wait", "a/b", "-n", "c"),
        ("wait", "a/b", "--cluster"),
        ("wait", "b", "-n", "a/../c"),
    ],
)
def test_names_that_can_be_none_never_reach_a_cluster(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    config = tmp_path / "config"
    config.write_text(
        "clusters: [{name: x, cluster: {server: 'https://127.0.0.1:1'}}]\ncurrent-context: x\n"
        "contexts: [{name: x, context: {cluster: x}}]\n"
    )
    result = _run(*arguments, "--kubeconfig", str(config))
    assert (result.exit_code, result.stderr.count("\n")) == (Exit.USAGE, 1)


def test_a_name_may_say_its_namespace() -> None:
    named = running.named(Target(None, None, None), "team/gemma", cluster=False)
    assert named == (Target(None, None, "team"), "gemma")
    same = Target(None, None, "team")
    assert running.named(same, "team/gemma", cluster=False) == (same, "gemma")


def test_details_come_with_verbose_alone() -> None:
    quiet, loud = _run("models"), _run("-v", "models")
    assert "ConfigError(" not in quiet.stderr
    assert "ConfigError(" in loud.stderr
    assert loud.stderr.startswith(quiet.stderr)


def test_a_failure_is_three_sentences() -> None:
    failure = Failure("It broke", "the disk is full", "Make room.", code=Exit.IMPOSSIBLE)
    assert failure.message == "It broke. The disk is full. Make room."
    assert failure.exit_code == 3


def test_inspect_pays_for_no_cluster_code() -> None:
    code = (
        "import sys; from aictl.__main__ import main; main.get_command(None, 'inspect');"
        "print([name for name in ('lightkube', 'aiohttp', 'kubekit') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_pipe_gets_lines_and_the_result_alone_on_standard_output(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show = Show()
    with show.bar("file", 2 << 20) as moved:
        moved(1 << 20)
        moved(2 << 20)
    show.result("Ready", {})
    captured = capsys.readouterr()
    assert captured.out == "Ready\n"
    assert captured.err == "file  100%  2.0 MiB of 2.0 MiB\n"


def test_json_is_one_document_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    show = Show(as_json=True)
    show.note("on the way")
    with show.bar("file", 1) as moved:
        moved(1)
    show.result("Ready", {"phase": "Ready"})
    captured = capsys.readouterr()
    assert captured.out == '{\n  "phase": "Ready"\n}\n'
    assert captured.err == ""
