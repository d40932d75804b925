"""InferenceServiceClass: what an administrator allows to orders, and whether it can be used."""
