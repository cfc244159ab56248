"""Exceptions for the user; the command line prints each as one sentence."""


class WarmstartError(Exception):
    """An error the user can fix: what is wrong, the value received, what is allowed."""


class StoppedError(WarmstartError):
    """The user stopped the job."""


class DivergedError(WarmstartError):
    """The loss or the weights became infinite or NaN."""
