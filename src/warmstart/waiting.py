"""How threads wait for each other; must be said before torch is loaded."""

import os


def limit_spinning() -> None:
    """Let waiting threads spin for a moment only, unless the user has chosen otherwise.

    Threads that spin for long make a step fifty times slower when another program needs a core;
    threads that never spin make decoding twice as slow.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "2000")
