"""The Kubernetes API types of the catalogue and their closed vocabularies."""
