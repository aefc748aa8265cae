"""The protocol that agents, hub and workers speak: frames, codec, and the state machines of both sides.

Neutral ground: imports only msgpack, msgspec and the standard library, and does no I/O. Signing and verifying are
passed in as callables, bytes and times come from outside.
"""
