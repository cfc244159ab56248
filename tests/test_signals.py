import signal
from threading import Thread

import pytest

from warmstart.signals import listening


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_request_is_noted_and_the_second_not_waited_for(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with listening() as interrupt:
        assert interrupt.signal_number is None
        signal.raise_signal(number)
        assert interrupt.signal_number == number
        assert signal.getsignal(number) is signal.SIG_DFL
    assert signal.getsignal(number) is before


def test_handlers_come_back_after_an_error() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(RuntimeError), listening():
        raise RuntimeError
    assert signal.getsignal(signal.SIGTERM) is before


def test_other_threads_do_not_listen() -> None:
    heard = []

    def work() -> None:
        with listening() as interrupt:
            heard.append(interrupt.signal_number)

    thread = Thread(target=work)
    thread.start()
    thread.join()
    assert heard == [None]
