"""Clients of registries and hubs that move model bytes."""
