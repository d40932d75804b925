"""Container images of the project, built without Docker."""
