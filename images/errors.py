"""Errors that a person can act on: the message is printed, without a traceback."""


class ImageError(Exception):
    """Why an image cannot be built, and the next step."""
