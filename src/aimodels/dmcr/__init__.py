"""DMCR: the OCI registry of models on an object store."""
