"""Kinds that are written but never read: how workloads are reached, protected and watched."""

from kubekit.resources.meta import custom

INGRESS = custom("networking.k8s.io", "v1", "Ingress", "ingresses")
NETWORK_POLICY = custom("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies")
POD_DISRUPTION_BUDGET = custom("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")
POD_MONITOR = custom("monitoring.coreos.com", "v1", "PodMonitor", "podmonitors")
