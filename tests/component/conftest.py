"""Fixtures of the component tests."""

from tests.kit.controlplane import control_plane, namespace

__all__ = ["control_plane", "namespace"]
