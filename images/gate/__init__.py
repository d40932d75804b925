"""The gate before an inference runtime: nginx, and the program that looks after it."""
