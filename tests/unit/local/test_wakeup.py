"""Waiting ends early when a signal comes, and signals are counted."""

import os
import signal
import subprocess

from kafscale.local.wakeup import listening


def test_requests_to_leave_are_counted_and_end_the_wait() -> None:
    with listening() as wakeup:
        os.kill(os.getpid(), signal.SIGTERM)
        wakeup.wait(60)
        os.kill(os.getpid(), signal.SIGINT)
        wakeup.wait(60)
        assert wakeup.asked_to_leave == 2


def test_the_end_of_a_child_ends_the_wait_and_is_no_request_to_leave() -> None:
    with listening() as wakeup:
        child = subprocess.Popen(["true"])
        wakeup.wait(60)
        child.wait()
        assert wakeup.asked_to_leave == 0


def test_nothing_happens_within_the_time() -> None:
    with listening() as wakeup:
        wakeup.wait(0.01)
        assert wakeup.asked_to_leave == 0


def test_who_ignores_hangups_goes_on_doing_so() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with listening() as wakeup:
            os.kill(os.getpid(), signal.SIGHUP)
            wakeup.wait(0.01)
            assert wakeup.asked_to_leave == 0
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_handlers_are_put_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with listening():
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before
