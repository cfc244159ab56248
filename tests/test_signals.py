import contextlib
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import pytest

from command_line import MACHINE, SHAPE, World, before_step, run, succeed
from warmstart.errors import TerminatedError
from warmstart.signals import SIGNALS, listen, raise_on_signals

NUMBERS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1]


@pytest.fixture(autouse=True)
def terminal() -> Iterator[None]:
    """Let SIGHUP be heard where the tests themselves run under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", NUMBERS)
def test_the_first_request_is_noted_and_the_second_not_waited_for(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with listen() as interrupt:
        assert interrupt.signal_number is None
        signal.raise_signal(number)
        assert interrupt.signal_number == number
        assert signal.getsignal(number) is signal.SIG_DFL
    assert signal.getsignal(number) is before


def test_handlers_come_back_after_an_error() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(RuntimeError), listen():
        raise RuntimeError
    assert signal.getsignal(signal.SIGTERM) is before


def test_other_threads_do_not_listen() -> None:
    heard = []

    def work() -> None:
        with listen() as interrupt:
            heard.append(interrupt.signal_number)

    thread = Thread(target=work)
    thread.start()
    thread.join()
    assert heard == [None]


@pytest.mark.parametrize("number", NUMBERS)
def test_every_signal_saves_and_the_run_continues(
    number: signal.Signals, world: World, tmp_path: Path
) -> None:
    steps = f"--objective causal {SHAPE} --batch-tokens 64 --steps 6 {MACHINE}"
    command = f"pretrain {world.texts} -o {tmp_path}/cut {steps}"
    with before_step(4, lambda: signal.raise_signal(number)):
        ran = run(command)
    assert ran.code == 128 + number
    assert "stopped at step 4, saved in" in ran.said
    assert "continuing from step 4" in succeed(f"{command} --resume").err


def test_a_run_under_nohup_does_not_hear_the_terminal_close() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with listen() as interrupt, raise_on_signals():
            signal.raise_signal(signal.SIGHUP)
        assert interrupt.signal_number is None
    finally:
        signal.signal(signal.SIGHUP, before)


class Dying:
    def __del__(self) -> None:
        signal.raise_signal(signal.SIGTERM)


def _die() -> None:
    Dying()


def _call_back() -> None:
    class Thing: ...

    thing = Thing()
    reference = weakref.ref(thing, lambda _: signal.raise_signal(signal.SIGTERM))
    del thing
    assert reference() is None


def _swallow() -> None:
    with contextlib.suppress(BaseException):  # as some libraries do
        signal.raise_signal(signal.SIGTERM)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("lose", [_die, _call_back, _swallow])
@pytest.mark.parametrize("work", [lambda: time.sleep(60), lambda: Thread(target=time.sleep)])
def test_a_signal_that_a_destructor_swallows_stops_all_the_same(
    lose: Callable[[], None], work: Callable[[], object]
) -> None:
    before = {number: signal.getsignal(number) for number in SIGNALS}
    until = time.monotonic() + 60

    def act() -> None:
        with raise_on_signals():
            lose()
            while time.monotonic() < until:
                work()

    with pytest.raises(TerminatedError) as caught:
        act()
    assert caught.value.signal_number == signal.SIGTERM
    assert time.monotonic() < until
    assert before == {number: signal.getsignal(number) for number in SIGNALS}


def test_nothing_interrupts_the_cleaning_up() -> None:
    cleaned = []

    def act() -> None:
        with raise_on_signals():
            try:
                signal.raise_signal(signal.SIGUSR1)
            finally:
                until = time.monotonic() + 1  # the signal is repeated meanwhile
                while time.monotonic() < until:
                    _swallow()
                cleaned.append(True)

    with pytest.raises(TerminatedError) as caught:
        act()
    assert cleaned == [True]
    assert caught.value.signal_number == signal.SIGUSR1


def test_a_command_that_lost_its_signal_in_a_destructor_ends() -> None:
    script = """
import os, signal, time
from warmstart.cli.process import stoppable
class Dying:
    def __del__(self): os.kill(os.getpid(), signal.SIGTERM); time.sleep(0.1)
with stoppable():
    Dying()
    time.sleep(60)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=50
    )
    assert "Exception ignored in: <function Dying.__del__" in done.stderr
    assert "StoppedError: stopped by SIGTERM" in done.stderr
