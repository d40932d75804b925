"""The command line of the demo: `python -m tools.demo up|down`; `make demo` calls it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from devcluster import cluster, commandline
from devcluster.errors import ClusterError
from devcluster.progress import Progress
from devcluster.settings import default_directory
from images.errors import ImageError
from tools import installation
from tools.demo import inference, scenario, trouble
from tools.demo.gemma import NoModel
from tools.demo.scenario import DemoFailed
from tools.demo.story import Story
from tools.installation import CommandFailed, Target

if TYPE_CHECKING:
    from collections.abc import Sequence

FAILURES = (ClusterError, ImageError, CommandFailed, DemoFailed, NoModel)
NAMESPACES = (installation.NAMESPACE, installation.INFERENCE_NAMESPACE, scenario.NAMESPACE)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path, dir_okay=False, resolve_path=True),
    help="A cluster that exists; without it, one is started on this machine.",
)
@click.pass_context
def main(context: click.Context, kubeconfig: Path | None) -> None:
    """See a real model uploaded, stored, delivered to a Pod, and ordered as a service that answers."""
    context.obj = kubeconfig


@main.command()
@click.option("--image", help="The ai-models image in a registry; without it, it is built here.")
@click.option("--llama-image", help="The llama image in a registry; without it, it is built here.")
@click.option("--gate-image", help="The gate image in a registry; without it, it is built here.")
@click.pass_obj
def up(
    kubeconfig: Path | None, *, image: str | None, llama_image: str | None, gate_image: str | None
) -> None:
    """Run the demo; what an earlier one has left is used or replaced."""
    story, progress = Story(), Progress()
    with story.step("A Kubernetes cluster", "cluster"):
        target = _target(kubeconfig, progress)
        scenario.refuse_foreign(target, NAMESPACES)
    try:
        images = _images(target, story, progress, (image, llama_image, gate_image))
        _catalogue(target, story, images)
        _inference(target, story, images)
    except FAILURES as error:
        print(f"\nerror: {error}\n\n{trouble.explain(target, NAMESPACES)}", file=sys.stderr)
        sys.exit(1)
    _farewell(target, story)


class Images(NamedTuple):
    """References of the images that the demo runs."""

    modules: str
    llama: str
    gate: str


def _images(target: Target, story: Story, progress: Progress, given: Sequence[str | None]) -> Images:
    with story.step("The images: both modules, llama.cpp's server, and the gate before it", "images"):
        names = ("ai-models", "llama", "gate")
        return Images(
            *(
                reference or installation.provide_image(target, name, progress)
                for name, reference in zip(names, given, strict=True)
            )
        )


def _catalogue(target: Target, story: Story, images: Images) -> None:
    with story.step("The catalogue, installed by its Helm chart", "ai-models installed"):
        story.say(f"helm upgrade --install ai-models modules/ai-models -n {installation.NAMESPACE}")
        scenario.own_namespace(target, installation.NAMESPACE)
        installation.install_chart(target, images.modules)
    with story.step("A real model on this machine: Gemma 3 270M", "model fetched"):
        path = scenario.fetched(story)
    with story.step("The model ordered from the catalogue", "model ordered"):
        scenario.clear(target, story)
        scenario.order(target, story)
    with story.step("The model uploaded, checked and stored, until it is Ready", "upload to Ready"):
        scenario.upload(target, story, path)
    with story.step("What the catalogue knows about it", "facts"):
        scenario.facts(target, story)
    with story.step("An ordinary Deployment that names the model in an annotation", "delivery"):
        scenario.deliver(target, story, images.llama)
    with story.step("The Pod answers with the model", "completion"):
        scenario.ask(target, story)


def _inference(target: Target, story: Story, images: Images) -> None:
    with story.step("Inference, installed by its Helm chart", "ai-inference installed"):
        namespace = installation.INFERENCE_NAMESPACE
        story.say(f"helm upgrade --install ai-inference modules/ai-inference -n {namespace}")
        scenario.own_namespace(target, namespace)
        installation.install_inference(target, images.modules, images.gate, images.llama)
    with story.step("The model ordered as a service, until it answers", "order to Ready"):
        inference.order(target, story)
    with story.step("A chat through the Service", "chat"):
        inference.chat(target, story)


def _farewell(target: Target, story: Story) -> None:
    namespace, deployment = scenario.NAMESPACE, scenario.APPLICATION
    click.echo(f"\n{story.table()}\n")
    click.secho("Try next", bold=True)
    clients = target.directory / "bin" if target.directory else target.kubectl_binary.parent
    ours = Path(sys.executable).parent
    click.echo(f"  export KUBECONFIG={target.kubeconfig} PATH={clients}:{ours}:$PATH")
    click.echo(f"  aictl models -n {namespace}")
    click.echo(f"  kubectl -n {namespace} describe model {scenario.MODEL}")
    click.echo(f"  kubectl -n {namespace} get deployment {deployment} -o yaml   # what the webhook has added")
    click.echo(f"  kubectl -n {namespace} port-forward deployment/{deployment} {scenario.PORT} &")
    body = '{"prompt": "Once upon a time", "max_tokens": 40}'
    click.echo(f"  curl -s localhost:{scenario.PORT}/v1/completions -d '{body}'")
    click.echo(f"  aictl why {inference.ORDER} -n {namespace}")
    click.echo(f'  aictl chat {inference.ORDER} "Once upon a time" --max-tokens 40 -n {namespace}')
    click.echo(
        f"  kubectl -n {namespace} delete inferenceservice {inference.ORDER}   # room for an order of yours"
    )
    given = "" if target.directory else f" KUBECONFIG={target.kubeconfig}"
    click.echo(f"\nRemove everything: make demo-down{given}")


@main.command()
@click.pass_obj
def down(kubeconfig: Path | None) -> None:
    """Remove the demo: the cluster on this machine, or the demo's parts of one that exists."""
    progress = Progress()
    if kubeconfig is None:
        cluster.down(default_directory(), progress)
        return
    target = installation.existing_cluster(kubeconfig, progress)
    scenario.refuse_foreign(target, NAMESPACES)
    with progress.step(f"namespace {scenario.NAMESPACE} deleted"):
        scenario.remove(target)
    for release, namespace in installation.RELEASES:
        with progress.step(f"{release} uninstalled"):
            # Pods and claims too: a namespace that still holds some is looked at again only seconds later.
            whole = ("--ignore-not-found", "--wait", "--cascade", "foreground")
            target.helm("uninstall", release, "-n", namespace, *whole)
            claims = ("delete", "persistentvolumeclaims", "--all", "--timeout=90s")
            target.kubectl("-n", namespace, *claims)
            target.kubectl("delete", "namespace", namespace, "--ignore-not-found", "--timeout=90s")


def _target(kubeconfig: Path | None, progress: Progress) -> Target:
    if kubeconfig:
        return installation.existing_cluster(kubeconfig, progress)
    return installation.own_cluster(progress)


if __name__ == "__main__":
    sys.exit(commandline.run(main, FAILURES))
