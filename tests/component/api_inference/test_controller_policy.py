"""The chart's policies about the controller itself, on a real API server: what it may write beside orders."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import pytest_asyncio

from aiinference.api.orders import ROTATE_TOKEN_ANNOTATION
from aiinference.orders.act import Actor
from aiinference.orders.state import Halt
from aiinference.workload import build, names, tls
from aimodels.delivery.names import CLUSTER_MODEL, MODEL, Reference, claim_name
from aimodels.delivery.template import Mounted, deliver
from kubekit.client import Client, connect
from kubekit.errors import Invalid, NotFound
from kubekit.resources import CUSTOM_RESOURCE_DEFINITION, Role, Secret, StatefulSet, custom, kind_of
from opskit.clock import SystemClock
from tests.kit import inferenceapi, orders
from tests.kit.controlplane import fresh_namespace
from tests.kit.eventually import eventually
from tests.kit.inferencecontroller import entitled
from tests.kit.modelsapi import install_definitions
from tests.kit.orderstates import observed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from tests.kit.helm import Manifest

pytestmark = pytest.mark.asyncio(loop_scope="module")

POLICIES = custom(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingAdmissionPolicy",
    "validatingadmissionpolicies",
    namespaced=False,
)
WRITES = "the controller of ai-inference"


class World:
    """The controller's own client under its policies, an administrator's, and the namespaces of both."""

    def __init__(self, controller: Client, admin: Client, home: str, elsewhere: str, owner: str) -> None:
        self.controller, self.admin, self.home, self.elsewhere = controller, admin, home, elsewhere
        #: uid of the order: the collector removes what belongs to none that is there
        self.owner = owner

    def here(self, manifest: Manifest) -> Manifest:
        """Return a copy of the manifest for the namespace of users, and of the order there."""
        made = copy.deepcopy(manifest)
        made["metadata"]["namespace"] = self.elsewhere
        for one in made["metadata"].get("ownerReferences", []):
            if one["uid"] == OWNERS[0]["uid"]:
                one["uid"] = self.owner
        return made

    @property
    def owners(self) -> list[Manifest]:
        """Return the references to the order, as its objects have them."""
        return [one | {"uid": self.owner} for one in OWNERS]

    async def writes_what_was_edited(self) -> None:
        """Replace a key, and end the replicas of an earlier launch, after others have edited both."""
        await self.controller.create(self.here(FORMS["StatefulSet"]))
        edited = {"labels": None, "ownerReferences": [self.owners[0] | {"controller": False}]}
        for kind, name in ((Secret, "support-llm-auth"), (StatefulSet, "support-llm")):
            await self.admin.patch(kind, name, {"metadata": edited}, namespace=self.elsewhere)
        wishes = {ROTATE_TOKEN_ANNOTATION: "now", names.UPGRADE_ANNOTATION: "now"}
        order = orders.order(annotations=wishes, metadata={"namespace": self.elsewhere, "uid": self.owner})
        wanted = replace(orders.intent(policy=orders.policy(update_strategy="Recreate")), order=order)
        found = await self.admin.find(StatefulSet, "support-llm", self.elsewhere)
        key = await self.admin.find(Secret, "support-llm-auth", self.elsewhere)
        assert found is not None
        status = msgspec.structs.replace(found.status, replicas=1)
        o = replace(
            observed(), order=order, secret=key, workload=msgspec.structs.replace(found, status=status)
        )
        halt = await Actor(self.controller, orders.SETTINGS, SystemClock()).act(wanted, o)
        assert isinstance(halt, Halt)
        assert halt.reason == "Updating", halt.message
        assert key != await self.admin.find(Secret, "support-llm-auth", self.elsewhere)

    async def offer(self, manifest: Manifest) -> None:
        """Have the controller try to make an object."""
        await self.controller.create(self.here(manifest), dry_run=True)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(control_plane: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    folder = tmp_path_factory.mktemp("policy")
    with fresh_namespace(control_plane) as home, fresh_namespace(control_plane) as elsewhere:
        async with (
            connect(control_plane) as admin,
            entitled(control_plane, home, folder) as mine,
            connect(mine) as client,
        ):
            await install_definitions(admin, inferenceapi.CHART)
            ordered = await admin.create(inferenceapi.order(orders.NAME, elsewhere, inferenceapi.MODEL))
            made = World(client, admin, home, elsewhere, ordered["metadata"]["uid"])
            for form, change, _ in {case.values[0]: case.values for case in refusals()}.values():
                await eventually(partial(refused, made, changed(form, change)))
            yield made


async def refused(world: World, manifest: Manifest) -> bool:
    try:
        await world.offer(manifest)
    except Invalid:
        return True
    return False


def secret(name: str, kind: str, **data: str) -> Manifest:
    metadata = names.metadata(orders.order(), name)
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": kind, "data": data}


KEY = secret("support-llm-auth", "Opaque", token="YQ==")
CERTIFICATE = secret("support-llm-tls", tls.TYPE, **{tls.CERTIFICATE: "YQ==", tls.KEY: "YQ=="})
#: what an order really has; the kinds of another's API are not known to this API server
REAL = [one for one in build.objects(orders.intent(), orders.SETTINGS) if one["kind"] != "PodMonitor"] + [
    KEY,
    CERTIFICATE,
]
FORMS = {one["metadata"]["name"] if one["kind"] == "Secret" else one["kind"]: one for one in REAL}


def changed(form: str, change: Callable[[Any], object]) -> Manifest:
    made = copy.deepcopy(FORMS[form])
    change(made)
    return made


def nobodys(made: Any) -> None:
    del made["metadata"]["ownerReferences"]


def others(made: Any) -> None:
    made["metadata"]["labels"][names.ORDER_LABEL] = "other"
    made["metadata"]["ownerReferences"][0]["name"] = "other"


def pod(made: Any) -> Any:
    return made["spec"]["template"]["spec"]


def container(made: Any) -> Any:
    return pod(made)["containers"][0]


def sidecar(made: Any) -> Any:
    return pod(made)["initContainers"][0]


def backend(made: Any) -> Any:
    return made["spec"]["rules"][0]["http"]["paths"][0]["backend"]


def relabelled(made: Any) -> None:
    for labels in (made["spec"]["selector"]["matchLabels"], made["spec"]["template"]["metadata"]["labels"]):
        labels[names.ORDER_LABEL] = "other"


def volume(**source: Any) -> Callable[[Any], object]:
    return lambda made: pod(made)["volumes"].append({"name": "more", **source})


def security(**context: Any) -> Callable[[Any], object]:
    return lambda made: container(made)["securityContext"].update(context)


def of_pod(**context: Any) -> Callable[[Any], object]:
    return lambda made: pod(made)["securityContext"].update(context)


#: which module of the node confines a Pod, and how
CONFINING: dict[str, Any] = {
    "seLinuxOptions": {"type": "spc_t"},
    "appArmorProfile": {"type": "Unconfined"},
    "windowsOptions": {"runAsUserName": "x"},
}
CONFINED = "leaves to the node what confines Pods"


def asking(field: str, how: str) -> Callable[[Any], object]:
    """Have the node ask another host."""

    def change(made: Any) -> None:
        place = container(made)
        place = place["lifecycle"] if field in {"preStop", "postStart"} else place
        place[field] = {how: {"host": "192.0.2.1", "port": 80}}

    return change


def variables(**entry: Any) -> Callable[[Any], object]:
    return lambda made: container(made).update(env=[{"name": "X", "valueFrom": entry}])


def annotated(key: str, value: str = "team/x") -> Callable[[Any], object]:
    return lambda made: made["metadata"].setdefault("annotations", {}).update({key: value})


#: by which ingress controllers and DNS lead elsewhere, or read what is not the order's
ANNOTATIONS = (
    "nginx.ingress.kubernetes.io/server-snippet",
    "nginx.ingress.kubernetes.io/server-alias",
    "nginx.ingress.kubernetes.io/auth-tls-secret",
    "nginx.ingress.kubernetes.io/proxy-ssl-secret",
    "haproxy-ingress.github.io/config-backend",
    "external-dns.alpha.kubernetes.io/hostname",
)
AS_NEEDED = "as orders need it, and no further"


@pytest.mark.parametrize("form", FORMS)
async def test_the_objects_of_an_order_are_taken(world: World, form: str) -> None:
    await world.offer(FORMS[form])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "change",
    [
        nobodys,
        lambda made: made["metadata"]["labels"].pop(names.MANAGED_LABEL),
        lambda made: made["metadata"]["ownerReferences"][0].update(name="other"),
        lambda made: made["metadata"]["ownerReferences"][0].update(kind="Model"),
        lambda made: made["metadata"]["ownerReferences"][0].update(controller=False),
    ],
    ids=["owner", "label", "other-order", "other-kind", "not-its-controller"],
)
async def test_what_belongs_to_no_order_is_refused(
    world: World, form: str, change: Callable[[Any], object]
) -> None:
    with pytest.raises(Invalid, match=f"{WRITES} writes objects with its own labels that belong to an order"):
        await world.offer(changed(form, change))


@pytest.mark.parametrize("form", FORMS)
async def test_what_is_not_called_as_its_order_is_refused(world: World, form: str) -> None:
    with pytest.raises(Invalid, match=f"{WRITES} writes objects that are called as their order is"):
        await world.offer(changed(form, others))


def refusals() -> list[Any]:
    """Return forms, what is wrong with each, and words of the refusal."""
    found: dict[str, list[tuple[str, Callable[[Any], object], str]]] = {
        "Service": [
            ("outside", lambda made: made["spec"].update(type="NodePort"), "inside the cluster"),
            ("ips", lambda made: made["spec"].update(externalIPs=["192.0.2.1"]), "inside the cluster"),
            ("pods", lambda made: made["spec"].update(selector={"app": "other"}), "to Pods of the order"),
            ("all", lambda made: made["spec"].pop("selector"), "to Pods of the order"),
            ("dns", annotated("external-dns.alpha.kubernetes.io/hostname"), AS_NEEDED),
        ],
        "Ingress": [
            (
                "service",
                lambda made: backend(made)["service"].update(name="x"),
                "to the Service of the",
            ),
            (
                "default",
                lambda made: made["spec"].update(
                    defaultBackend={"service": {"name": "x", "port": {"number": 80}}}
                ),
                "to the Service of the",
            ),
            (
                "host",
                lambda made: made["spec"]["rules"][0].update(host="x.example.com"),
                "hosts of the domain",
            ),
            (
                "deeper",
                lambda made: made["spec"]["rules"][0].update(host="a.b.services.example.com"),
                "hosts of the domain",
            ),
            ("any-host", lambda made: made["spec"]["rules"][0].pop("host"), "hosts of the domain"),
            ("tls-host", lambda made: made["spec"]["tls"][0]["hosts"].append("x.org"), "hosts of the domain"),
            ("tls", lambda made: made["spec"]["tls"][0].update(secretName="x"), "with its certificate only"),
            *[(key.partition("/")[2], annotated(key), AS_NEEDED) for key in ANNOTATIONS],
            ("value", annotated("nginx.ingress.kubernetes.io/proxy-body-size", "1m; }"), AS_NEEDED),
        ],
        "NetworkPolicy": [("pods", lambda made: made["spec"].update(podSelector={}), "selects the Pods")],
        "PodDisruptionBudget": [
            (
                "pods",
                lambda made: made["spec"]["selector"].update(
                    matchExpressions=[{"key": "app", "operator": "Exists"}]
                ),
                "selects the Pods",
            )
        ],
        "support-llm-auth": [
            ("type", lambda made: made.update(type="example.com/other"), "Opaque Secrets for keys"),
        ],
        "support-llm-tls": [
            ("type", lambda made: made.update(type="Opaque"), "kubernetes.io/tls for certificates"),
            ("more", lambda made: made["data"].update({"ca.crt": "YQ=="}), "for certificates only"),
        ],
        "Role": [
            ("names", lambda made: made["rules"][0].update(resourceNames=["x-auth"]), "read the Secret"),
            ("all", lambda made: made["rules"][0].pop("resourceNames"), "read the Secret"),
            ("verbs", lambda made: made["rules"][0].update(verbs=["get", "patch"]), "read the Secret"),
            ("kinds", lambda made: made["rules"][0].update(resources=["secrets", "pods"]), "read the Secret"),
            ("rules", lambda made: made["rules"].append(made["rules"][0]), "read the Secret"),
        ],
        "StatefulSet": [
            *[
                (name, lambda made, name=name: pod(made).update({name: True}), "reach into their node")
                for name in ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace")
            ],
            ("node", lambda made: pod(made).update(nodeName="n"), "reach into their node"),
            (
                "port",
                lambda made: sidecar(made)["ports"][0].update(hostPort=made["spec"]["replicas"] * 8000),
                "reach into their node",
            ),
            ("host-path", volume(hostPath={"path": "/"}), "mounts models, the key"),
            ("secret", volume(secret={"secretName": "theirs"}), "mounts models, the key"),
            ("settings", volume(configMap={"name": "theirs"}), "mounts models, the key"),
            (
                "token",
                volume(projected={"sources": [{"serviceAccountToken": {"path": "token"}}]}),
                "mounts models, the key",
            ),
            ("claim", volume(persistentVolumeClaim={"claimName": "data", "readOnly": True}), "mounts models"),
            ("writable", volume(persistentVolumeClaim={"claimName": "ai-model-llm-1"}), "mounts models"),
            (
                "template",
                lambda made: made["spec"].update(volumeClaimTemplates=[CLAIM]),
                "mounts models, the key",
            ),
            (
                "account",
                lambda made: pod(made).update(serviceAccountName="admin"),
                "without a ServiceAccount",
            ),
            (
                "mounted",
                lambda made: pod(made).update(automountServiceAccountToken=True),
                "without a ServiceAccount",
            ),
            ("variable", variables(secretKeyRef={"name": "theirs", "key": "x"}), "as variables"),
            ("setting", variables(configMapKeyRef={"name": "theirs", "key": "x"}), "as variables"),
            (
                "all-of-a-secret",
                lambda made: sidecar(made).update(envFrom=[{"secretRef": {"name": "theirs"}}]),
                "as variables",
            ),
            ("root", lambda made: pod(made)["securityContext"].update(runAsNonRoot=False), "as restricted"),
            ("roots", security(runAsUser=0), "as restricted"),
            ("not-bound", security(runAsNonRoot=False), "as restricted"),
            ("seccomp", security(seccompProfile={"type": "Unconfined"}), "as restricted"),
            ("writes", security(readOnlyRootFilesystem=False), "as restricted"),
            ("gains", security(capabilities={"drop": ["ALL"], "add": ["NET_ADMIN"]}), "as restricted"),
            ("keeps", security(capabilities={}), "as restricted"),
            ("bare", lambda made: sidecar(made).pop("securityContext"), "as restricted"),
            (
                "privileged",
                security(privileged=True, allowPrivilegeEscalation=True),
                "as restricted",
            ),
            ("label", relabelled, "under the label of their order"),
            *[
                (f"{place}-{name}", change(**{name: value}), CONFINED)
                for name, value in CONFINING.items()
                for place, change in (("pod", of_pod), ("container", security))
            ],
            ("sysctls", of_pod(sysctls=[{"name": "net.ipv4.tcp_syncookies", "value": "1"}]), CONFINED),
            ("zero", of_pod(runAsUser=0), CONFINED),
            (
                "annotated",
                lambda made: made["spec"]["template"]["metadata"]["annotations"].update(
                    {"container.apparmor.security.beta.kubernetes.io/runtime": "unconfined"}
                ),
                CONFINED,
            ),
            *[
                (f"{field}-{how}", asking(field, how), "and nobody else")
                for field in ("livenessProbe", "readinessProbe", "startupProbe", "preStop", "postStart")
                for how in ("httpGet", "tcpSocket")
            ],
        ],
    }
    return [
        pytest.param(form, change, words, id=f"{form}-{name}")
        for form, cases in found.items()
        for name, change, words in cases
    ]


CLAIM = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


@pytest.mark.parametrize(("form", "change", "words"), refusals())
async def test_another_form_is_refused(
    world: World, form: str, change: Callable[[Any], object], words: str
) -> None:
    with pytest.raises(Invalid, match=words):
        await world.offer(changed(form, change))


@pytest.mark.parametrize("kind", [MODEL, CLUSTER_MODEL])
async def test_models_that_are_delivered_to_pods_of_an_order_are_taken(world: World, kind: str) -> None:
    """The webhook of ai-models mounts them in the very request of the controller."""
    reference = Reference(kind, "llm")
    made = copy.deepcopy(FORMS["StatefulSet"])
    mounted = Mounted(reference, claim_name(reference, 1))
    made["spec"]["template"] = deliver(made["spec"]["template"], [mounted])
    assert pod(made)["volumes"] != pod(FORMS["StatefulSet"])["volumes"]
    await world.offer(made)


async def test_metrics_are_read_from_pods_of_the_order_only(world: World) -> None:
    """The operator's kind is there for this test only."""
    spec = {"selector": {"matchLabels": names.selector(orders.NAME)}, "podMetricsEndpoints": []}
    head = {"apiVersion": "monitoring.coreos.com/v1", "kind": "PodMonitor"}
    monitor: Manifest = head | {"metadata": names.metadata(orders.order()), "spec": spec}
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    named = {"plural": "podmonitors", "singular": "podmonitor", "kind": "PodMonitor"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": anything}}
    definition: Manifest = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "podmonitors.monitoring.coreos.com"},
        "spec": {
            "group": "monitoring.coreos.com",
            "scope": "Namespaced",
            "names": named,
            "versions": [version],
        },
    }
    await world.admin.create(definition)
    try:

        async def taken() -> bool:
            try:
                await world.offer(monitor)
            except NotFound:
                return False
            return True

        await eventually(taken)
        anywhere = copy.deepcopy(monitor)
        anywhere["spec"]["namespaceSelector"] = {"any": True}
        with pytest.raises(Invalid, match="in the namespace of the order only"):
            await world.offer(anywhere)
        monitor["spec"]["selector"] = {}
        with pytest.raises(Invalid, match="selects the Pods of the order"):
            await world.offer(monitor)
    finally:
        await world.admin.delete(CUSTOM_RESOURCE_DEFINITION, definition["metadata"]["name"])


async def test_nothing_of_somebody_else_is_taken_over_or_deleted(world: World) -> None:
    theirs = world.here(KEY)
    nobodys(theirs)
    await world.admin.create(theirs)
    taken = {"metadata": {"labels": KEY["metadata"]["labels"]} | {"ownerReferences": world.owners}}
    with pytest.raises(Invalid, match="takes over nothing"):
        await world.controller.patch(Secret, "support-llm-auth", taken, namespace=world.elsewhere)
    await world.admin.delete(Secret, "support-llm-auth", world.elsewhere)

    role = world.here(FORMS["Role"])
    labels = role["metadata"]["labels"]
    other = {"ownerReferences": [world.owners[0] | {"kind": "Model"}]}
    for name, more in (("theirs", {}), ("theirs-auth-reader", {}), ("support-llm-auth-reader", other)):
        head = {"name": name, "namespace": world.elsewhere, "labels": labels}
        await world.admin.create({**role, "metadata": head | more})
        with pytest.raises(Invalid, match="belong to an order, and no others"):
            await world.controller.delete(Role, name, world.elsewhere)
        await world.admin.delete(Role, name, world.elsewhere)


OWNERS = KEY["metadata"]["ownerReferences"]


async def test_its_own_objects_are_put_right_and_deleted(world: World) -> None:
    """Whoever may edit them takes labels off: that neither keeps an order open nor its key as it is."""
    for manifest in (KEY, CERTIFICATE, FORMS["Role"], FORMS["Ingress"]):
        made = world.here(manifest)
        kind, name = kind_of(made), made["metadata"]["name"]
        await world.controller.create(made)
        bare = {"metadata": {"labels": None}}
        await world.admin.patch(kind, name, bare, namespace=world.elsewhere)
        await world.controller.patch(
            kind, name, made, namespace=world.elsewhere, content="apply", field_manager="t", force=True
        )
        await world.admin.patch(kind, name, bare, namespace=world.elsewhere)
    owned = {"ownerReferences": [world.owners[0] | {"controller": False}]}
    await world.admin.patch(Role, "support-llm-auth-reader", {"metadata": owned}, namespace=world.elsewhere)
    await world.controller.delete(Secret, "support-llm-tls", world.elsewhere)
    await world.controller.delete(Role, "support-llm-auth-reader", world.elsewhere)
    await world.controller.delete(kind_of(FORMS["Ingress"]), "support-llm", world.elsewhere)
    await world.writes_what_was_edited()
    with pytest.raises(Invalid, match="deletes certificates of orders, and no other Secrets"):
        await world.controller.delete(Secret, "support-llm-auth", world.elsewhere)


async def test_a_host_of_an_earlier_domain_is_kept(world: World) -> None:
    made = world.here(FORMS["Ingress"])
    made["spec"]["rules"][0]["host"] = "support-llm.old.example.com"
    made["spec"]["tls"][0]["hosts"] = ["support-llm.old.example.com"]
    await world.admin.create(made)
    again: dict[str, Any] = {"content": "apply", "field_manager": "t", "force": True}
    name = made["metadata"]["name"]
    await world.controller.patch(kind_of(made), name, made, namespace=world.elsewhere, **again)
    made["spec"]["rules"][0]["host"] = "other.old.example.com"
    with pytest.raises(Invalid, match="hosts of the domain"):
        await world.controller.patch(kind_of(made), name, made, namespace=world.elsewhere, **again)
    await world.admin.delete(kind_of(made), name, world.elsewhere)


async def test_what_others_have_annotated_is_kept_and_not_changed(world: World) -> None:
    made = world.here(FORMS["Ingress"])
    key, kind = "nginx.ingress.kubernetes.io/whitelist-source-range", kind_of(made)
    annotated(key, "192.0.2.0/24")(made)
    await world.admin.create(made)
    again: dict[str, Any] = {"content": "apply", "field_manager": "t", "force": True}
    name = made["metadata"]["name"]
    await world.controller.patch(kind, name, world.here(FORMS["Ingress"]), namespace=world.elsewhere, **again)
    annotated(key, "0.0.0.0/0")(made)
    with pytest.raises(Invalid, match=AS_NEEDED):
        await world.controller.patch(kind, name, made, namespace=world.elsewhere, **again)
    await world.admin.delete(kind, name, world.elsewhere)


async def test_its_own_secrets_are_its_own(world: World) -> None:
    metadata = {"name": "anything", "namespace": world.home}
    await world.controller.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})


async def test_the_policies_fit_the_kinds_that_they_are_about(world: World) -> None:
    """The API server reads them against the kinds that it knows, some time after they are made."""

    async def checked() -> list[dict[str, Any]] | None:
        body = msgspec.json.decode(await world.admin.request("GET", POLICIES.path()))
        found = [one for one in body["items"] if one["metadata"]["name"].startswith(world.home)]
        states = [one.get("status", {}) for one in found]
        done = all(one.get("observedGeneration") == 1 and "typeChecking" in one for one in states)
        return found if found and done else None

    found = await eventually(checked)
    assert len(found) == len({one["kind"] for one in FORMS.values()}) + len(("all kinds", "PodMonitor"))
    for one in found:
        assert "expressionWarnings" not in one["status"]["typeChecking"], one["metadata"]["name"]
