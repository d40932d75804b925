"""The Kubernetes API types of ai-inference and their closed vocabularies."""
