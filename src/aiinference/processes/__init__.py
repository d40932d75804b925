"""The processes of ai-inference: each puts its parts together, and nothing else."""
