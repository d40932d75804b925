"""A real Kubernetes on one Linux machine, from components built here, without Docker."""
