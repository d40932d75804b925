"""Pure knowledge of models: formats, facts, names, sizes, ModelPack; no network, no cluster."""
