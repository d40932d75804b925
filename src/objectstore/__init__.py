"""The object-store port and its engines: S3, file system, memory."""
