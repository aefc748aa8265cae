"""The state machines of both sides, without I/O: bytes and times in, events and bytes out.

CONTRACT (to be implemented): a shell calls ``receive(data, now)`` for every binary message, ``on_deadline(now)`` when
``next_deadline()`` has passed, sends every item of ``frames_to_send()``, and acts on the returned events. ``now`` is
monotonic seconds. After an `Ended` event the shell sends what is left in ``frames_to_send()`` and closes the socket
with ``reason.close_code``.
"""
