"""Delivery of models to annotated workloads: webhook, controller, copy Job."""
