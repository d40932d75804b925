"""Whether an order really answers: asked like a user asks, judged, and remembered for a while."""
