"""InferenceService: from an order under a class to a workload that answers."""
