"""The publication worker: from received bytes to a tagged ModelPack artifact."""
