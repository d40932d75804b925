"""Bounded readers of model file headers."""
