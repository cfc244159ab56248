"""The exceptions a user is meant to read.

Know nothing about where they are raised; the command line prints each as one sentence.
"""


class WarmstartError(Exception):
    """A mistake the user can mend: what is wrong, the value received, what is allowed."""


class StoppedError(WarmstartError):
    """The user asked the job to stop, and it has saved its work."""


class DivergedError(WarmstartError):
    """The loss or the weights became infinite or no numbers."""
