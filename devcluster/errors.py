"""Errors that a person can act on: the message is printed, without a traceback."""


class ClusterError(Exception):
    """What stops the cluster from coming up or going down, why, and the next step."""
