"""The tasks that the interop tests send."""

import json
import time

from celery.exceptions import SoftTimeLimitExceeded
from celery.utils.time import maybe_iso8601, maybe_make_aware

from app import app
from seen import seen


def note(key, value):
    """Append a value to a list in Redis, for what no result can tell."""
    app.backend.client.rpush(key, json.dumps(value))


@app.task(name="interop.add")
def add(x, y):
    return x + y


@app.task(name="interop.multiply")
def multiply(x, y):
    return x * y


@app.task(name="interop.tsum")
def tsum(numbers):
    return sum(numbers)


@app.task(name="interop.echo")
def echo(*args, **kwargs):
    return {"args": args, "kwargs": kwargs}


@app.task(name="interop.spell")
def spell(*args, **kwargs):
    """Arguments as Python writes them: a result in JSON would lose digits in JavaScript."""
    return repr((args, kwargs))


@app.task(name="interop.measure")
def measure(text):
    """Length of a text in characters, and its last one."""
    return [len(text), text[-1]]


@app.task(name="interop.inspect", bind=True)
def inspect(self, *_args, **_kwargs):
    return seen(self.request)


@app.task(name="interop.spell_header", bind=True)
def spell_header(self, name):
    """A header of the message as Python writes it, from the top level and from the nested ones."""
    return [repr(self.request.get(name)), repr((self.request.headers or {}).get(name))]


@app.task(name="interop.clock", bind=True)
def clock(self):
    """When the task ran, and when this worker thinks that it was to run: seconds since 1970."""
    eta = maybe_iso8601(self.request.eta)
    return {"ran": time.time(), "eta": eta and maybe_make_aware(eta).timestamp()}


@app.task(name="interop.note")
def note_value(key, value):
    note(key, value)
    return value


@app.task(name="interop.note_result")
def note_result(result, key):
    """For a callback: what came first is the result of the task before."""
    note(key, result)
    return result


@app.task(name="interop.note_request", bind=True)
def note_request(self, key):
    """As inspect, for a task that stores no result."""
    note(key, seen(self.request))


@app.task(name="interop.fail")
def fail(*args):
    raise ValueError(*args)


@app.task(name="interop.errback", bind=True)
def errback(self, failed_id):
    """One argument: the worker sends it as a task, with the id of the failed one."""
    note(failed_id, {"failed": failed_id, "parent": self.request.parent_id, "root": self.request.root_id})


@app.task(name="interop.inline_errback")
def inline_errback(request, exc, traceback):
    """Three arguments: the worker that ran the failed task calls it in place."""
    note(request.id, {"failed": request.id, "exception": repr(exc), "traceback": "ValueError" in str(traceback)})


@app.task(name="interop.slow")
def slow(seconds):
    """Works until it is done or told to hurry."""
    try:
        time.sleep(seconds)
    except SoftTimeLimitExceeded:
        return "soft limit"
    return "done"


@app.task(name="interop.retry_once", bind=True, max_retries=1)
def retry_once(self, key):
    note(key, seen(self.request))
    if self.request.retries == 0:
        raise self.retry(countdown=0)
    return self.request.retries
