"""ai-inference: an order for a model becomes a running, probed, authenticated inference API."""
