"""Settings of the control-plane processes, from variables that begin with AI_INFERENCE_."""

from datetime import timedelta
from pathlib import Path

import msgspec

from aiinference.api.reasons import HttpsMode
from aiinference.models.opening import Mode, TransportName
from kubekit.placement import Toleration, check

MODULE_NAMESPACE = "d8-ai-inference"


class ControllerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What ``ai-inference-controller`` is told."""

    #: the gate before every runtime, and the runtimes by engine
    gate_image: str
    images: dict[str, str]
    namespace: str = MODULE_NAMESPACE
    #: by which a process knows what an earlier one in its Pod has held; empty: it runs in none
    pod_uid: str = ""
    log_level: str = "info"
    health_port: int = 8081
    #: life of the certificates, as an ISO 8601 duration: shortened to watch a renewal
    certificate_validity: timedelta = timedelta(days=90)

    catalog_mode: Mode = Mode.ENABLED
    catalog_transport: TransportName = TransportName.REST
    catalog_base_url: str = "https://ai-models-controller.d8-ai-models.svc.cluster.local:8080"
    catalog_path: str = "/api/internal/v1/models/lookup"
    catalog_timeout_seconds: float = 10
    catalog_not_ready_requeue_seconds: float = 30
    catalog_token_file: Path = Path("/var/run/secrets/ai-inference/catalog-token")

    planner_url: str = "https://ai-inference-planner.d8-ai-inference.svc:8443"
    planner_token_file: Path = Path("/var/run/secrets/ai-inference/planner-token")
    #: whether the planner may make a recipe for a model that has none
    runtime_fallback: bool = True

    #: host of an order by its name, such as ``%s.services.example.com``; empty: none is reached from outside
    domain_template: str = ""
    #: empty: the cluster's default one
    ingress_class: str = ""
    #: certificates of classes that leave them to the module
    https_mode: HttpsMode = HttpsMode.CERT_MANAGER
    https_cluster_issuer: str = "selfsigned"
    https_secret: str = ""

    #: namespaces that may read the metrics of runtimes
    monitoring_namespaces: tuple[str, ...] = ()
    #: where the Pods of orders run: labels of nodes as a JSON object, tolerations as a JSON list
    node_selector: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a placement that no order could have."""
        check(self.node_selector, self.tolerations)
