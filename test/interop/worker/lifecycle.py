"""Ties the worker to the test run that started it, by its standard input and output."""

import os
import signal
import threading

from celery.signals import worker_init, worker_ready


@worker_ready.connect
def announce(**_):
    """Say that the worker consumes. Celery replaces sys.stdout, so past it."""
    os.write(1, b"ready\n")


@worker_init.connect
def watch_the_run(**_):
    """End when the run has ended, however it did."""
    threading.Thread(target=_end_with_stdin, daemon=True).start()


def _end_with_stdin():
    while os.read(0, 1024):
        pass
    # The processes of the pool follow: Celery has the kernel kill them when this one dies.
    os.kill(os.getpid(), signal.SIGKILL)
