"""The catalogue of models: API, catalogue controller, publication, registry, upload, delivery."""
