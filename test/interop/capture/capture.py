"""Makes the calls on standard input with Celery itself, and writes what it would have published.

Nothing is sent: messages are taken where Celery hands them to its producer, sizes of chords where it hands them to the
result backend. Ids are counted, and the clock stands still.
"""
import json
import sys
from datetime import datetime, timezone

import celery.app.base
import celery.canvas
from celery import Celery, chain, chord, group, signature
from kombu.utils.json import dumps

NOW = datetime(2031, 5, 6, 7, 8, 9, tzinfo=timezone.utc)

app = Celery('capture', broker='memory://', backend='redis://127.0.0.1:1/0', set_as_current=True)
app.now = lambda: NOW

messages = []
sizes = {}
ids = 0


def count_up():
    global ids
    ids += 1
    return 'generated-%d' % ids


def keep(producer, name, message, queue=None, priority=None, **_):
    body = json.loads(dumps(message.body))
    headers = json.loads(dumps(message.headers))
    messages.append({
        'headers': headers, 'body': body,
        'queue': getattr(queue, 'name', queue) or 'celery', 'priority': priority or 0,
    })


celery.canvas.uuid = celery.app.base.uuid = count_up
app.amqp.__dict__['send_task_message'] = keep
app.backend.set_chord_size = sizes.__setitem__
app.backend.set = lambda key, value: None
app.backend.on_task_call = lambda producer, task_id: {}
app.backend.add_pending_result = lambda result, weak=False, **_: result


def with_signatures(options):
    return {
        name: [canvas(call) for call in value] if name in ('link', 'link_error') else value
        for name, value in options.items()
    }


def canvas(call):
    kind = call['kind']
    if kind == 'signature':
        made = signature(call['task'], args=tuple(call['args']), options=with_signatures(call['options']), app=app)
        made.set_immutable(call['immutable'])
    elif kind == 'chain':
        made = chain([canvas(step) for step in call['tasks']])
    elif kind == 'group':
        made = group([canvas(member) for member in call['tasks']], app=app)
    else:
        made = chord([canvas(member) for member in call['header']], canvas(call['body']), app=app)
    for errback in call.get('errbacks', ()):
        made.link_error(canvas(errback))
    return made


def capture(call):
    global ids
    ids = 0
    messages.clear()
    sizes.clear()
    try:
        canvas(call).apply_async(**with_signatures(call['apply']))
    except (TypeError, RuntimeError) as error:
        return {'error': str(error)}
    return {'messages': list(messages), 'sizes': dict(sizes)}


json.dump([capture(call) for call in json.load(sys.stdin)], sys.stdout)
