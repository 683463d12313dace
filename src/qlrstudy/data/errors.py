"""The one way in which data can fail."""


class DataError(Exception):
    """Data that cannot be had, read or trusted: which file, what is wrong, the cure."""
