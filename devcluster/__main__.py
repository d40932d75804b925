"""The command line: `python -m devcluster`, or `bin/devcluster`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click

from devcluster import cluster, commandline, settings
from devcluster import ingress as ingress_controller
from devcluster.errors import ClusterError
from devcluster.processes import Processes
from devcluster.progress import Progress
from devcluster.settings import DEFAULT_PORT_BASE, Settings, default_directory
from images.errors import ImageError


@click.group(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path, file_okay=False, resolve_path=True),
    default=default_directory,
    help="The cluster's folder: state, logs, volumes. Keep it short, sockets lie in it.",
)
@click.pass_context
def main(context: click.Context, directory: Path) -> None:
    """Run a real Kubernetes on this machine, without Docker."""
    context.obj = directory


@main.command()
@click.option("--control-plane-only", is_flag=True, help="No node and no root: API server and controllers.")
@click.option("--port-base", type=int, default=DEFAULT_PORT_BASE, help="First of the ten ports to use.")
@click.option("--fake-nodes", type=click.IntRange(0), default=0, help="Nodes more, whose Pods are played.")
@click.pass_obj
def up(directory: Path, *, control_plane_only: bool, port_base: int, fake_nodes: int) -> None:
    """Install and build what is missing, start the cluster, wait until it is usable."""
    wanted = Settings(directory, control_plane_only, port_base, fake_nodes)
    cluster.up(wanted, Progress())
    print(f"export KUBECONFIG={shlex.quote(str(wanted.kubeconfig))}")
    print(f"export PATH={shlex.quote(str(wanted.binaries))}:$PATH")


@main.command()
@click.option("--keep", is_flag=True, help="Keep the folder: data, images, logs.")
@click.pass_obj
def down(directory: Path, *, keep: bool) -> None:
    """Stop everything and undo what `up` changed on the machine."""
    cluster.down(directory, Progress(), keep=keep)


@main.command()
@click.argument("archives", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="IMAGE.tar...")
@click.pass_obj
def load(directory: Path, *, archives: tuple[Path, ...]) -> None:
    """Give the node images from docker-archives, as `python -m images build` writes them."""
    cluster.load(directory, archives, Progress())


@main.command()
@click.pass_obj
def ingress(directory: Path) -> None:
    """Give the running cluster an ingress controller: Traefik, built once, for Ingresses and HTTPRoutes."""
    ingress_controller.install(directory, Progress())
    print(f"at {settings.require(directory).node_ip}: hosts NAME.{ingress_controller.DOMAIN}")
    print("classes traefik, nginx; Gateway ingress/public")


@main.command()
@click.pass_obj
def status(directory: Path) -> None:
    """List the processes and their memory."""
    processes = Processes(settings.require(directory))
    for name in processes.names():
        memory = processes.resident_megabytes(name)
        print(f"{name:26} {'stopped' if memory is None else f'running {memory:5} MB'}")


@main.command()
@click.pass_obj
def kubeconfig(directory: Path) -> None:
    """Print where the administrator's kubeconfig lies."""
    print(settings.require(directory).kubeconfig)


if __name__ == "__main__":
    sys.exit(commandline.run(main, (ClusterError, ImageError)))
