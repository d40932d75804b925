"""Recipes: how a model is started by an engine on hardware; data, and what becomes of it."""
