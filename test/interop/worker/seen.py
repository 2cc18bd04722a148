"""What a task can see of the message that started it."""

import json


def seen(request):
    """All attributes of a request, as JSON: the headers of the message, and what the worker added."""
    return json.loads(json.dumps(vars(request), default=repr))
