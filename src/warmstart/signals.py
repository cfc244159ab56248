"""The signals that ask this process to stop."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def signals_restored() -> Iterator[None]:
    """Undo what is done to the signals inside the block, by a launcher or a library perhaps."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items() if current_thread() is main_thread() else ():
            signal.signal(number, handler)
