"""Every limit of the wire, named, with its unit and its reason."""

PROTOCOL = "provewire.v1"
"""WebSocket subprotocol: the major version."""
MINOR_VERSION = 0
"""Minor version this code speaks; hello and welcome settle the smaller of both."""

FRAME_BYTES_MAX = 256 * 1024
"""One frame. Larger things (keys, witnesses) travel over HTTP."""
FRAME_BYTES_UNAUTHENTICATED_MAX = 4 * 1024
"""One frame before the handshake is over: a stranger may cost the hub no more."""
HANDSHAKE_S = 10.0
"""From the socket's opening to the welcome."""

NESTING_MAX = 8
"""Levels of maps and arrays in a frame; the deepest frame we send has five."""
STRING_BYTES_MAX = 64 * 1024
"""One string: a worker's whole error text fits, an attack does not."""
BINARY_BYTES_MAX = 192 * 1024
"""One byte string: an inline output (a proof) of an event."""
ARRAY_ITEMS_MAX = 4096
"""Items of one array."""
MAP_ITEMS_MAX = 256
"""Entries of one map."""

EVENTS_PER_FRAME_MAX = 512
EVENTS_BYTES_PER_FRAME = 192 * 1024
"""Target size of one events frame; one larger event (an inline proof) still fits FRAME_BYTES_MAX."""
EVENTS_IN_FLIGHT_MAX = 2048
"""Sent and not yet acknowledged, per stream: the hub's memory for one agent stays bounded."""
OUTPUT_INLINE_BYTES_MAX = 64 * 1024
"""An output carried in its event; a Groth16 proof has about 800."""

NAME_CHARS_MAX = 128
TEXT_CHARS_MAX = 8 * 1024
"""Reasons and error texts."""
HELD_RANGES_MAX = 24
"""(epoch, stream) ranges in one hello; older epochs wait for the next session. Keeps the hello under 4 KiB."""
JOBS_HELD_MAX = 16
GPUS_MAX = 64

HEARTBEAT_S = 10.0
STALE_AFTER_S = 30.0
LOST_AFTER_S = 45.0
SEND_DEADLINE_S = 10.0
"""A peer that does not take a frame within this is closed."""
RECONNECT_CAP_S = 20.0
"""Full-jitter backoff while the hub cannot be reached."""
REFUSED_CAP_S = 90.0
"""Same, after refusals."""
