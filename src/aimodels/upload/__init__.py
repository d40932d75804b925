"""The upload gateway: users' bytes into DMCR, resumable."""
