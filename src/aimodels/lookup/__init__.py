"""What other modules of the cluster may ask about a model: whether it is ready, and its facts."""
