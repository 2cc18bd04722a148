"""The Celery app of the interop tests. All of its settings come from the environment."""

import json
import os

from celery import Celery
from kombu import Exchange, Queue

import lifecycle  # noqa: F401  (its signal handlers have to be connected)


def queue_of(spec):
    """A queue as test/support/python-worker.ts describes it."""
    name = spec["name"]
    exchange = Exchange(spec.get("exchange", name), type=spec.get("exchangeType", "direct"))
    return Queue(
        name,
        exchange,
        routing_key=spec.get("routingKey", name),
        max_priority=spec.get("maxPriority"),
    )


queues = [queue_of(spec) for spec in json.loads(os.environ["INTEROP_QUEUES"])]

app = Celery("interop", include=["tasks"])
app.conf.update(
    broker_url=os.environ["INTEROP_BROKER"],
    result_backend=os.environ["INTEROP_BACKEND"],
    task_queues=queues,
    task_default_queue=queues[0].name,
    worker_enable_remote_control=False,
    result_expires=600,
)
