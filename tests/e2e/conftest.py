"""Fixtures of the end-to-end tests."""

from tests.kit.cluster import devcluster, inference, platform, tenant

__all__ = ["devcluster", "inference", "platform", "tenant"]
