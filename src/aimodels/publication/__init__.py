"""The publication Job: an uploaded model is judged and stored as an artifact, without a disk."""
