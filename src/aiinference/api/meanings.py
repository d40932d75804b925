"""What each reason means, what to look at and what to do: the text behind docs/reasons.md.

What belongs here: one entry per word that a person may meet. What does not: messages about a single object.
"""

from aiinference.api.reasons import ClassPhase, ClassReason, OrderPhase, StartupPhase
from aiinference.api.reasons import OrderReason as Reason
from kubekit.vocabulary import Meaning

CLASS_PHASES: dict[ClassPhase, Meaning] = {
    ClassPhase.PENDING: Meaning(
        "The class is new, or something that it names does not exist.", "See the reason."
    ),
    ClassPhase.READY: Meaning("Orders may use the class."),
    ClassPhase.FAILED: Meaning(
        "The class contradicts itself. Its orders wait with ClassNotReady; those that run are left alone.",
        "See the reason.",
    ),
}

CLASS: dict[ClassReason, Meaning] = {
    ClassReason.PENDING: Meaning("The class has not been looked at yet."),
    ClassReason.VALIDATED: Meaning("The policies agree with each other and name what exists."),
    ClassReason.READY: Meaning("Orders may use the class."),
    ClassReason.ACCELERATOR_POLICY_VIOLATION: Meaning(
        "Sharing modes, placements and shares of the class allow no combination that exists.",
        "Correct `spec.acceleratorPolicy`; the message says which fields exclude each other.",
        recovers=False,
    ),
    ClassReason.DEVICE_CLASS_MISSING: Meaning(
        "None of the class's `allowedDeviceClasses` exists in the cluster.",
        "Create the DeviceClass or correct the name.",
        recovers=True,
    ),
    ClassReason.PRIORITY_CLASS_MISSING: Meaning(
        "The PriorityClass that Pods of the class's orders would get does not exist.",
        "Create it or correct the name.",
        recovers=True,
    ),
}

ORDER_PHASES: dict[OrderPhase, Meaning] = {
    OrderPhase.PENDING: Meaning("The API has not answered yet; the conditions say what is waited for."),
    OrderPhase.READY: Meaning("The inference API answers."),
    OrderPhase.FAILED: Meaning(
        "It cannot go on as things are, or the API stopped answering; the conditions say why.",
        "See the reason.",
    ),
}

STARTUP: dict[StartupPhase, Meaning] = {
    StartupPhase.SCHEDULING: Meaning("A replica waits for a node with room and, if need be, a device."),
    StartupPhase.MOUNTING: Meaning("The model's volume is being filled or mounted."),
    StartupPhase.PULLING: Meaning("The node fetches the runtime's image."),
    StartupPhase.LOADING: Meaning("The runtime reads the model."),
    StartupPhase.ANSWERING: Meaning("The runtime is up; its first real answer is being waited for."),
    StartupPhase.DONE: Meaning("The API answered."),
}

_HOLDS: dict[Reason, Meaning] = {
    Reason.CLASS_RESOLVED: Meaning("The class exists, is Ready and admits the namespace."),
    Reason.BUILT_IN_POLICY: Meaning("The order names no class; the platform's built-in policy holds."),
    Reason.MODEL_RESOLVED: Meaning("The model is there and the class allows it."),
    Reason.LAUNCH_PLAN_CALCULATED: Meaning("Placement and launch are decided; see `status.resolved`."),
    Reason.RUNTIME_CURRENT: Meaning("The workload's objects are as the order and its plan want them."),
    Reason.WORKLOAD_READY: Meaning("The replicas run and are ready."),
    Reason.SCALING_HEALTHY: Meaning("The autoscaler can do its work."),
    Reason.READY: Meaning("The inference API answers."),
    Reason.PENDING: Meaning(
        "The step is not done yet: one before it is not, or whoever was asked for it has not answered."
    ),
    Reason.UPDATING: Meaning("Running replicas are being replaced by new ones."),
    Reason.STARTING: Meaning("Replicas are starting; `status.startup` says how far."),
    Reason.MODEL_DELIVERY_PENDING: Meaning(
        "The model is being copied to where the replicas mount it; the workload's events say how far.",
        recovers=True,
    ),
}

_CLASS: dict[Reason, Meaning] = {
    Reason.CLASS_NOT_FOUND: Meaning(
        "There is no such InferenceServiceClass; the message lists those that are open to the namespace.",
        "Correct `spec.inferenceServiceClassName`.",
        recovers=True,
    ),
    Reason.CLASS_NOT_READY: Meaning(
        "The class has a fault of its own.", "Ask its administrator to look at its conditions.", recovers=True
    ),
    Reason.NAMESPACE_NOT_ALLOWED: Meaning(
        "The class does not admit this namespace.",
        "Choose another class, or ask its administrator to add the namespace to `allowedNamespaces`.",
        recovers=True,
    ),
    Reason.DOMAIN_MISSING: Meaning(
        "The order is to be reached from outside the cluster, and the module has no domain for its host.",
        "Ask the administrator to set `domainTemplate` (under Deckhouse `publicDomainTemplate`), or choose a "
        "class of type `ClusterLocal`.",
        recovers=True,
    ),
}

_MODEL: dict[Reason, Meaning] = {
    Reason.MODEL_NOT_FOUND: Meaning(
        "The catalogue has no such model, or not for this namespace.",
        "Correct `spec.model.ref`, or create the model.",
        recovers=True,
    ),
    Reason.MODEL_NOT_READY: Meaning(
        "The model is in the catalogue and not Ready.", "Look at the model's conditions.", recovers=True
    ),
    Reason.ENDPOINT_TYPE_NOT_SUPPORTED: Meaning(
        "The model can serve none of the endpoint types that the class allows.",
        "Choose a class that allows what the model serves, or another model.",
        recovers=False,
    ),
    Reason.PARAMETER_COUNT_EXCEEDED: Meaning(
        "The model is larger than the class's `maxParameterCount`.",
        "Choose a smaller model or a class that allows it.",
        recovers=False,
    ),
    Reason.PARAMETER_COUNT_UNKNOWN: Meaning(
        "The class bounds the model's size, and nothing that counts tells how large this one is: of a model "
        "of the catalogue its facts and its name, of a repository the order and the name.",
        "Publish the model under a name with its size, or choose a class without a limit; for a repository "
        "set `spec.model.parameterCount`, for example to 32B.",
        recovers=False,
    ),
    Reason.AUTH_SECRET_MISSING: Meaning(
        "The Secret of `spec.model.authSecretRef` does not exist.", "Create it.", recovers=True
    ),
    Reason.AUTH_SECRET_KEY_MISSING: Meaning(
        "The Secret of `spec.model.authSecretRef` has no such key.",
        "Add the key, or name another one in `authSecretRef.key`.",
        recovers=True,
    ),
    Reason.CATALOG_DISABLED: Meaning(
        "The module's setting `catalog.mode` is None, so models of the catalogue cannot be ordered.",
        "Ask the administrator to set `catalog.mode: Enabled`.",
        recovers=True,
    ),
    Reason.CATALOG_UNAVAILABLE: Meaning(
        "The catalogue does not answer. What runs goes on running.",
        "Look at the Pods of Deployment `ai-models-api` in `d8-ai-models`.",
        recovers=True,
    ),
    Reason.UNSUPPORTED_SOURCE: Meaning(
        "The source of the model is not one that this version serves.",
        "Order a model of the catalogue; a newer version looks at the order again by itself.",
        recovers=False,
    ),
}

_PLAN: dict[Reason, Meaning] = {
    Reason.CLAIM_DEVICE_MISSING: Meaning(
        "None of the order's `deviceClasses` is among those that the class allows.",
        "Correct the list, or leave it out.",
        recovers=False,
    ),
    Reason.NO_CAPACITY: Meaning(
        "No device that the class allows has room for the model; the message says what is missing.",
        "Wait for room, or choose a smaller model, another launchStrategy or another class.",
        recovers=True,
    ),
    Reason.QUANTIZATION_MISMATCH: Meaning(
        "The devices cannot compute with the model's quantization.",
        "Choose the model in another quantization, or a class with other devices.",
        recovers=False,
    ),
    Reason.NO_COMPATIBLE_RUNTIME_AVAILABLE: Meaning(
        "No recipe fits the model, and its size is not known well enough to make one.",
        "Set `spec.model.parameterCount`, or choose another model.",
        recovers=False,
    ),
    Reason.ACCELERATOR_POLICY_VIOLATION: Meaning(
        "The class's accelerator policy allows no combination that exists.",
        "Ask the class's administrator to correct it.",
        recovers=False,
    ),
    Reason.INVENTORY_UNAVAILABLE: Meaning(
        "The planner does not know the cluster's devices at the moment. What runs goes on running.",
        "Look at the module that publishes them.",
        recovers=True,
    ),
    Reason.PLANNER_UNAVAILABLE: Meaning(
        "The planner does not answer. What runs goes on running.",
        "Look at the Pods of Deployment `ai-inference-planner`.",
        recovers=True,
    ),
}

_WORKLOAD: dict[Reason, Meaning] = {
    Reason.OBJECT_CONFLICT: Meaning(
        "An object of a name that the order needs exists and is not the order's.",
        "Remove that object, or order under another name.",
        recovers=True,
    ),
    Reason.OBJECT_REFUSED: Meaning(
        "The cluster refuses one of the order's objects or Pods: a quota, a policy or an admission webhook.",
        "Remove what stands in the way; the message gives its words.",
        recovers=True,
    ),
    Reason.CERTIFICATE_MISSING: Meaning(
        "The Secret with the administrator's certificate for the order's host is not there or not whole. "
        "What runs goes on with the certificate that it has.",
        "Ask the administrator to put `tls.crt` and `tls.key` into the Secret that the message names.",
        recovers=True,
    ),
    Reason.CERTIFICATE_INVALID: Meaning(
        "The administrator's certificate cannot serve the order's host: it has ended, is for other hosts, or "
        "is not one. What runs goes on with the certificate that it has.",
        "Ask the administrator to replace it; the message says what is wrong with it.",
        recovers=True,
    ),
    Reason.UNSCHEDULABLE: Meaning(
        "No node has room for a replica.",
        "Free or add capacity; the message has the scheduler's words.",
        recovers=True,
    ),
    Reason.IMAGE_PULL_FAILED: Meaning(
        "The node cannot fetch an image of the workload.",
        "Look at the registry and its credentials.",
        recovers=True,
    ),
    Reason.OUT_OF_MEMORY: Meaning(
        "The runtime was ended because it took more memory than its limit.",
        "Choose a smaller model, or tell the module's maintainers: the recipe asks for too little.",
        recovers=False,
    ),
    Reason.INVALID_ARGUMENT: Meaning(
        "The runtime refuses its own command line.",
        "This is a fault of the recipe; the message has the runtime's words.",
        recovers=False,
    ),
    Reason.RUNTIME_CRASHED: Meaning(
        "The runtime ends again and again; the message has its last line.",
        "Look at the log of the Pod's container `runtime`.",
        recovers=False,
    ),
    Reason.STARTUP_DEADLINE_EXCEEDED: Meaning(
        "The start took longer than a model of this size can need.",
        "Look at `status.startup` and at the log of the Pod's container `runtime`.",
        recovers=True,
    ),
    Reason.SCALING_LIMITED: Meaning(
        "The autoscaler wants more replicas than the bounds or the cluster allow.",
        "Raise the class's `maxReplicas` or free capacity.",
        recovers=True,
    ),
    Reason.METRICS_UNAVAILABLE: Meaning(
        "The cluster serves no metrics that replicas could follow, so their number stays as it is.",
        "Install metrics-server or an adapter for custom metrics.",
        recovers=True,
    ),
}

_ANSWER: dict[Reason, Meaning] = {
    Reason.HEALTH_CHECK_FAILED: Meaning(
        "The API does not give a real answer yet; the message says what came instead.",
        "Wait for the start; after its deadline look at the container `runtime`.",
        recovers=True,
    ),
    Reason.SERVICE_UNHEALTHY: Meaning(
        "The API answered before and does not any more.",
        "Look at the log of the Pod's container `runtime`; the order recovers when the API does.",
        recovers=True,
    ),
}

ORDER: dict[Reason, Meaning] = _HOLDS | _CLASS | _MODEL | _PLAN | _WORKLOAD | _ANSWER
