"""Settings of the control-plane processes, from variables that begin with AI_MODELS_."""

from datetime import timedelta
from pathlib import Path

import msgspec

from aimodels.api.model import MODULE_NAMESPACE
from kubekit.placement import Toleration, check


class ControllerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What ``ai-models-controller`` is told."""

    image: str
    namespace: str = MODULE_NAMESPACE
    #: by which a process knows what an earlier one in its Pod has held; empty: it runs in none
    pod_uid: str = ""
    log_level: str = "info"
    dmcr_url: str = "https://dmcr.d8-ai-models.svc:443"
    #: projected token with the audience of DMCR; without one DMCR is asked without grants
    dmcr_token_file: Path | None = Path("/var/run/secrets/ai-models/dmcr-token")
    public_upload_url: str = ""
    #: Secret of our namespace whose ca.crt checks the certificate that the address shows; empty: none does
    public_ca_secret: str = ""
    shared_pvc_storage_class: str = ""
    max_publications: int = 4
    max_copies: int = 2
    #: where the Pods of Jobs run: labels of nodes as a JSON object, tolerations as a JSON list
    node_selector: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()
    evaluation_store: bool = False
    health_port: int = 8081
    #: life of the certificates, as an ISO 8601 duration: shortened to watch a renewal
    certificate_validity: timedelta = timedelta(days=90)

    def __post_init__(self) -> None:
        """Refuse a placement that no Job could have."""
        check(self.node_selector, self.tolerations)


class ApiSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What ``ai-models-api`` is told."""

    namespace: str = MODULE_NAMESPACE
    log_level: str = "info"
    port: int = 8080
    tls_cert_file: Path = Path("/etc/ai-models/tls/tls.crt")
    tls_key_file: Path = Path("/etc/ai-models/tls/tls.key")
