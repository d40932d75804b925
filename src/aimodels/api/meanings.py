"""What each reason means, what to look at and what to do: the text behind docs/reasons.md.

What belongs here: one entry per word that a person may meet. What does not: messages about a single object.
"""

from __future__ import annotations

from aimodels.api.reasons import DeliveryBlockedReason as Blocked
from aimodels.api.reasons import ModelEvent, Phase, WorkloadEvent
from aimodels.api.reasons import ModelReason as Reason
from kubekit.vocabulary import Meaning

PHASES: dict[Phase, Meaning] = {
    Phase.PENDING: Meaning("The object is new; the first step is being prepared."),
    Phase.WAIT_FOR_UPLOAD: Meaning(
        "Address and token of the upload are in the Secret `status.upload.secretName`; no whole file is "
        "there yet.",
        "Upload the file, for example with `aictl upload`.",
    ),
    Phase.PUBLISHING: Meaning("The bytes are being checked and stored; `status.transfer` says how far."),
    Phase.READY: Meaning("The model is stored, checked back by digest, and can be mounted."),
    Phase.FAILED: Meaning("It cannot go on as things are; the conditions say why.", "See the reason."),
    Phase.DELETING: Meaning("The deletion was requested; what belongs to the model is being removed."),
}

MODEL: dict[Reason, Meaning] = {
    Reason.PENDING: Meaning(
        "The step has not begun: the object is new, or it waits for a free publication "
        "(`status.transfer.queuePosition`), or something stands in its way.",
        "Where the message names what stands in the way, remove that: an object of a name that is needed, a "
        "quota or a policy that refuses the publication's Job or its Pod, a Pod without a node or an image.",
    ),
    Reason.WAITING_FOR_USER_UPLOAD: Meaning(
        "The upload is open and the file is not complete.", "Upload the file."
    ),
    Reason.PUBLISHING: Meaning("A publication Job is being started, or runs."),
    Reason.DOWNLOADING: Meaning("The source is being read."),
    Reason.PACKAGING: Meaning("The file is being read, checked and stored as an artifact."),
    Reason.VERIFYING: Meaning("The stored artifact is being checked back by digest."),
    Reason.DELETING: Meaning("Transfers, Secret, Role, Job and stored artifact are being removed."),
    Reason.SOURCE_ACCEPTED: Meaning("The source can be read and has a form that is served."),
    Reason.STORAGE_AVAILABLE: Meaning("The registry of the module answers."),
    Reason.ARTIFACT_PUBLISHED: Meaning("The artifact is stored and every part of it is there."),
    Reason.MODEL_METADATA_CALCULATED: Meaning(
        "Everything known about the model was read from it or declared."
    ),
    Reason.MODEL_METADATA_PARTIAL: Meaning("Some facts could only be estimated and are not shown."),
    Reason.EVALUATION_STORE: Meaning(
        "The artifact lies in the module's embedded store: one volume, one replica, for trying things out.",
        "Set `artifacts` to a bucket for anything that has to last.",
    ),
    Reason.READY: Meaning("The model can be mounted."),
    Reason.STORAGE_UNAVAILABLE: Meaning(
        "The registry of the module or its store does not answer or refuses us. This is never the model's "
        "fault: everything waits and goes on by itself.",
        "Look at the Pods of Deployment `dmcr` and at the store's space and credentials.",
        recovers=True,
    ),
    Reason.STALLED: Meaning(
        "No byte moved for longer than the size allows. An upload without a byte for 24 hours fails, and so "
        "does a publication that came no further for so long, whatever its attempts died of.",
        "Look at the client or the source. After a failure set the annotation `ai.deckhouse.io/retry` to a "
        "new value (`aictl retry`): a publication goes on with the bytes that are there, an upload is issued "
        "again.",
        recovers=True,
    ),
    Reason.IN_USE: Meaning(
        "The deletion waits for the workloads that the message lists.",
        'Remove their annotation or delete them; `ai.deckhouse.io/force-delete: "true"` on the model '
        "does not wait.",
        recovers=True,
    ),
    Reason.UNSUPPORTED_SOURCE: Meaning(
        "The form of the URL, the provider or the kind of source is not one that this version serves.",
        "Correct `spec.source`; a newer version looks at it again by itself.",
        recovers=False,
    ),
    Reason.PUBLICATION_FAILED: Meaning(
        "The file or the source's answer is no model that can be stored, or the received file was lost with "
        "the store; the message says which.",
        "Correct the file, retry (`aictl retry`) and upload it again.",
        recovers=False,
    ),
    Reason.INSUFFICIENT_STORAGE: Meaning(
        "The model does not fit the storage budget of the module.",
        "Delete models that are not needed or raise the limit, then retry.",
        recovers=False,
    ),
    Reason.MANIFEST_INVALID: Meaning(
        "The stored or imported artifact did not pass verification.",
        "Publish it again (`aictl retry`).",
        recovers=False,
    ),
    Reason.ACCESS_DENIED: Meaning(
        "The hub refuses the repository with the given token, or without one.",
        "Put a token with read access into the Secret of `authSecretRef`.",
        recovers=False,
    ),
    Reason.LICENCE_NOT_ACCEPTED: Meaning(
        "The repository wants its licence accepted first.",
        "Accept it at the hub with the token's account.",
        recovers=False,
    ),
    Reason.REVISION_NOT_FOUND: Meaning(
        "The repository has no such revision.", "Correct the URL.", recovers=False
    ),
    Reason.AUTH_SECRET_MISSING: Meaning(
        "The Secret of `authSecretRef`, or a known key in it, is missing.", "Create it.", recovers=False
    ),
    Reason.CATALOG_AUTH_FAILED: Meaning(
        "The other catalogue refuses the credentials.", "Correct token or RBAC there.", recovers=True
    ),
    Reason.CATALOG_TLS_INVALID: Meaning(
        "The other catalogue's certificate is missing or not trusted.",
        "Correct certificate or CA.",
        recovers=True,
    ),
    Reason.CATALOG_SOURCE_NOT_READY: Meaning(
        "The ModelCatalogSource is not Ready.", "Look at its conditions.", recovers=True
    ),
    Reason.CATALOG_SOURCE_AMBIGUOUS: Meaning(
        "Several sources are Ready and none is named.",
        "Set `spec.source.catalog.sourceName`.",
        recovers=False,
    ),
    Reason.CATALOG_SOURCE_MISSING: Meaning(
        "No such ModelCatalogSource.", "Correct the name.", recovers=False
    ),
    Reason.CATALOG_ENTRY_NOT_FOUND: Meaning(
        "The catalogue has no such entry.", "Correct the name.", recovers=False
    ),
    Reason.CATALOG_ENTRY_NOT_ALLOWED: Meaning(
        "The entry is gated, private or outside the source's policy.", "Choose another one.", recovers=False
    ),
    Reason.CATALOG_ENTRY_CHANGED: Meaning(
        "The other catalogue replaced the artifact that this import was pinned to.",
        "Retry to import the new one.",
        recovers=False,
    ),
}

BLOCKED: dict[Blocked, Meaning] = {
    Blocked.SHARED_PVC_STORAGE_CLASS_MISSING: Meaning(
        "No StorageClass for shared volumes is set and the cluster has no default.",
        "Set `delivery.sharedPVCStorageClassName` or a default StorageClass.",
        recovers=True,
    ),
    Blocked.SHARED_PVC_STORAGE_CLASS_AMBIGUOUS: Meaning(
        "Several StorageClasses are marked as default.",
        "Leave one, or set `delivery.sharedPVCStorageClassName`.",
        recovers=True,
    ),
    Blocked.SHARED_PVC_QUOTA_EXCEEDED: Meaning(
        "The namespace's ResourceQuota has no room for the volume.",
        "Raise the quota or free some.",
        recovers=True,
    ),
    Blocked.SHARED_PVC_CLAIM_PENDING: Meaning(
        "The volume is not bound or cannot be written.", "Look at the claim's events.", recovers=True
    ),
    Blocked.SHARED_PVC_MATERIALIZER_PENDING: Meaning(
        "The copy into the volume is not finished: the model is not Ready, or the copy waits for its turn, "
        "runs, or cannot run; the message says which.",
        "Where its Pod or Job cannot be, an administrator makes room or corrects the policy; others have its "
        "turn meanwhile.",
        recovers=True,
    ),
    Blocked.INVALID_SPEC: Meaning(
        "The workload already uses a path or a volume name that delivery needs, or an annotation is "
        "malformed.",
        "Correct the workload; the event says what.",
        recovers=True,
    ),
    Blocked.DUPLICATE_MODEL_NAME: Meaning(
        "One name stands twice in the annotations.", "Name each model once.", recovers=True
    ),
    Blocked.INSUFFICIENT_NODE_CACHE_CAPACITY: Meaning(
        "The models together are larger than a node's cache.",
        "Raise `delivery.nodeCacheSize`.",
        recovers=True,
    ),
    Blocked.NODE_CACHE_DELIVERY_DISABLED: Meaning(
        "Delivery by node cache was asked for and is not enabled.", "Set `delivery.type`.", recovers=True
    ),
}

MODEL_EVENTS: dict[ModelEvent, Meaning] = {
    ModelEvent.UPLOAD_SESSION_ISSUED: Meaning("Address and token of the upload are there."),
    ModelEvent.REMOTE_FETCH_STARTED: Meaning("A publication that reads a remote source began."),
    ModelEvent.RAW_STAGED: Meaning("The upload is complete; its publication follows."),
    ModelEvent.PUBLICATION_SUCCEEDED: Meaning("The model is Ready."),
    ModelEvent.PUBLICATION_FAILED: Meaning("The model failed; the message gives the reason."),
}

WORKLOAD_EVENTS: dict[WorkloadEvent, Meaning] = {
    WorkloadEvent.MODEL_DELIVERY_APPLIED: Meaning("The models are there and mounted."),
    WorkloadEvent.MODEL_DELIVERY_PENDING: Meaning("A model is not Ready or not copied yet."),
    WorkloadEvent.MODEL_DELIVERY_REMOVED: Meaning("The annotation is gone, and so is the delivery."),
    WorkloadEvent.MODEL_DELIVERY_BLOCKED: Meaning("Delivery waits; the annotation gives the reason."),
    WorkloadEvent.MODEL_DELIVERY_FAILED: Meaning("A step failed and is repeated."),
    WorkloadEvent.INVALID_MODEL_REFERENCE: Meaning(
        "An annotation names no model of this namespace or cluster."
    ),
}
