"""Built-in kinds of the core group: Pods, their configuration, Services, Events."""

from datetime import datetime

import msgspec

from kubekit.resources.meta import Resource, custom, resource


class ObjectReference(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """A pointer to another object."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""


@resource("v1", "Namespace", "namespaces", namespaced=False)
class Namespace(Resource, frozen=True, kw_only=True):
    """A namespace; a deletion timestamp in its metadata says that it is terminating."""


@resource("v1", "ConfigMap", "configmaps")
class ConfigMap(Resource, frozen=True, kw_only=True):
    """Plain configuration."""

    data: dict[str, str] = msgspec.field(default_factory=dict)


@resource("v1", "Secret", "secrets")
class Secret(Resource, frozen=True, kw_only=True):
    """A Secret; ``data`` is decoded from base64."""

    type: str = ""
    data: dict[str, bytes] = msgspec.field(default_factory=dict)

    def __repr__(self) -> str:
        """Show the keys only: a Secret's values must not reach a log by accident."""
        return f"Secret({self.metadata.namespace}/{self.metadata.name}, keys={sorted(self.data)})"


class ServicePort(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """One port of a Service."""

    name: str = ""
    port: int = 0
    node_port: int = 0
    target_port: int | str = 0


class ServiceSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What is read of a Service."""

    cluster_ip: str = msgspec.field(name="clusterIP", default="")
    type: str = ""
    ports: list[ServicePort] = []


@resource("v1", "Service", "services")
class Service(Resource, frozen=True, kw_only=True):
    """A Service."""

    spec: ServiceSpec = ServiceSpec()


class PersistentVolumeClaimVolumeSource(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """A Pod's use of a claim."""

    claim_name: str = ""
    read_only: bool = False


class Volume(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """A Pod's volume: its name, and the claim when it is one."""

    name: str = ""
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None


class PodSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What is read of a Pod's spec."""

    node_name: str = ""
    service_account_name: str = ""
    volumes: list[Volume] = []


class ContainerStateTerminated(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """How a container ended."""

    exit_code: int = 0
    reason: str = ""
    message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None


class ContainerStateWaiting(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """Why a container does not run yet."""

    reason: str = ""
    message: str = ""


class ContainerStateRunning(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """Since when a container runs."""

    started_at: datetime | None = None


class ContainerState(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """The state of a container: at most one field is there."""

    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None
    waiting: ContainerStateWaiting | None = None


class ContainerStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """What a kubelet reports of one container."""

    name: str = ""
    image: str = ""
    ready: bool = False
    #: whether its start-up probe has succeeded
    started: bool | None = None
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class PodCondition(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """One condition of a Pod."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


class PodStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What is read of a Pod's status."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    pod_ip: str = msgspec.field(name="podIP", default="")
    #: when a kubelet took it
    start_time: datetime | None = None
    conditions: list[PodCondition] = []
    container_statuses: list[ContainerStatus] = []
    init_container_statuses: list[ContainerStatus] = []


@resource("v1", "Pod", "pods")
class Pod(Resource, frozen=True, kw_only=True):
    """A Pod."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def finished(self) -> bool:
        """Tell whether none of its containers will run again."""
        return self.status.phase in {"Succeeded", "Failed"}


@resource("v1", "Event", "events")
class Event(Resource, frozen=True, kw_only=True):
    """An event about another object."""

    involved_object: ObjectReference = ObjectReference()
    type: str = ""
    reason: str = ""
    message: str = ""
    count: int = 0
    first_timestamp: datetime | None = None
    last_timestamp: datetime | None = None
    event_time: datetime | None = None
    reporting_component: str = ""


SERVICE_ACCOUNT = custom("", "v1", "ServiceAccount", "serviceaccounts")
