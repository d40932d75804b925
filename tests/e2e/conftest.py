"""Fixtures of the end-to-end tests."""

from tests.kit.cluster import devcluster, platform, tenant

__all__ = ["devcluster", "platform", "tenant"]
