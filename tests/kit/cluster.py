"""A whole cluster with the modules installed, for end-to-end tests; one for all tests of a session.

`platform` is a cluster of devcluster with ai-models installed from the checkout; `inference` has ai-inference
too. When AI_MODULES_KUBECONFIG names a cluster, that one is used and left as it is. Otherwise the one of this
machine is brought up; it is taken down after the session only when the session has started it.
AI_MODULES_KEEP=1 keeps it in any case; it must be set where several processes share the tests.
"""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from devcluster import cluster, settings
from devcluster.progress import Progress
from devcluster.settings import default_directory
from tests.kit.controlplane import fresh_namespace
from tools import installation
from tools.demo import trouble
from tools.installation import INFERENCE_NAMESPACE, NAMESPACE, CommandFailed, Target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass
class Platform:
    """A cluster in which the module runs."""

    target: Target
    #: References of the images on the nodes.
    image: str
    llama_image: str
    #: The values with which a test has left the module installed; None when it has removed it.
    values: tuple[str, ...] | None = field(default=(), init=False)

    def ensure(self, *values: str) -> None:
        """Have the module installed with these values of its chart."""
        if self.values != values:
            installation.install_chart(self.target, self.image, values)
            self.values = values

    def explain(self, *namespaces: str) -> str:
        """Say what does not work in the namespace of ai-models and in others."""
        return trouble.explain(self.target, (NAMESPACE, *namespaces))


@pytest.fixture(scope="session")
def devcluster() -> Iterator[Target]:
    """Return a cluster with a node, DNS and shared volumes."""
    progress = Progress()
    given = os.environ.get("AI_MODULES_KUBECONFIG")
    if given:
        yield installation.existing_cluster(Path(given), progress)
        return
    with _cluster_of_this_machine(progress) as target:
        yield target


@pytest.fixture(scope="session")
def platform(devcluster: Target, tmp_path_factory: pytest.TempPathFactory) -> Platform:
    """Return the cluster with images loaded and the module installed."""

    def make() -> list[str]:
        progress = Progress()
        image, llama = (
            installation.provide_image(devcluster, name, progress) for name in ("ai-models", "llama")
        )
        with progress.step("module installed"):
            installation.install_chart(devcluster, image)
        return [image, llama]

    try:
        return Platform(devcluster, *once(tmp_path_factory, "platform", make))
    except CommandFailed as error:
        pytest.fail(f"{error}\n\n{trouble.explain(devcluster, (NAMESPACE,))}", pytrace=False)


@pytest.fixture(scope="session")
def inference(platform: Platform, tmp_path_factory: pytest.TempPathFactory) -> Platform:
    """Return the platform with ai-inference installed too."""

    def make() -> list[str]:
        progress = Progress()
        gate = installation.provide_image(platform.target, "gate", progress)
        with progress.step("ai-inference installed"):
            installation.install_inference(platform.target, platform.image, gate, platform.llama_image)
        return []

    try:
        once(tmp_path_factory, "inference", make)
    except CommandFailed as error:
        pytest.fail(f"{error}\n\n{platform.explain(INFERENCE_NAMESPACE)}", pytrace=False)
    return platform


@pytest.fixture
def tenant(platform: Platform) -> Iterator[str]:
    """Return the name of a fresh namespace in which a user works."""
    with fresh_namespace(platform.target.kubeconfig) as name:
        yield name


@contextmanager
def _cluster_of_this_machine(progress: Progress) -> Iterator[Target]:
    was_there = settings.load(default_directory()) is not None
    try:
        yield installation.own_cluster(progress)
    finally:
        if not was_there and os.environ.get("AI_MODULES_KEEP") != "1":
            cluster.down(default_directory(), progress)


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[], list[str]]) -> list[str]:
    """Make something once for all processes that share a session's tests; return what that has returned.

    AI_MODULES_RUN names the folder of a run in which several sessions follow each other on one cluster.
    """
    run = os.environ.get("AI_MODULES_RUN")
    if not run and "PYTEST_XDIST_WORKER" not in os.environ:
        return make()
    made = (Path(run) if run else factory.getbasetemp().parent) / f"{name}.json"
    with made.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            made.write_text(json.dumps(make()))
    found: list[str] = json.loads(made.read_text())
    return found
