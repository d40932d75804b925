"""Settings of the control-plane processes, from variables that begin with AI_INFERENCE_."""

from datetime import timedelta

import msgspec

MODULE_NAMESPACE = "d8-ai-inference"


class ControllerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What ``ai-inference-controller`` is told."""

    namespace: str = MODULE_NAMESPACE
    log_level: str = "info"
    health_port: int = 8081
    #: life of the certificates, as an ISO 8601 duration: shortened to watch a renewal
    certificate_validity: timedelta = timedelta(days=90)
