"""Every limit of the wire, named, with its unit and its reason."""

import sys

PROTOCOL = "provewire.v1"
"""WebSocket subprotocol: the major version."""
AGENT_HEADER = "Provewire-Agent"
"""Of the request that opens the WebSocket: the agent's id. It proves nothing; in a crowd it gets the nodes in first."""
MINOR_VERSION = 1
"""Minor version this code speaks; hello and welcome settle the smaller of both.

1 added the stream ``readings`` and changes inside a status.
"""

FRAME_BYTES_MAX = 256 * 1024
"""One frame. Larger things (keys, witnesses) travel over HTTP."""
FRAME_BYTES_UNAUTHENTICATED_MAX = 4 * 1024
"""One frame before the handshake is over: a stranger may cost the hub no more."""
OPEN_S = 10.0
"""For a dial of an agent: from the first packet to the open WebSocket, or the refusal."""
HANDSHAKE_S = 10.0
"""From the socket's opening to the welcome."""

NESTING_MAX = 10
"""Levels of maps and arrays in a frame; the deepest we send, partitions of an engine's jobs, stand in the eighth."""
STRING_BYTES_MAX = 64 * 1024
"""One string: a worker's whole error text fits, an attack does not."""
BINARY_BYTES_MAX = 192 * 1024
"""One byte string: an inline output (a proof) of an event."""
ARRAY_ITEMS_MAX = 512
"""Items of one array: the events of one frame."""
MAP_ITEMS_MAX = 256
"""Entries of one map."""
ITEM_BYTES_TYPICAL = 64
"""A frame may have arrays and maps of as many items as it could hold of this size; before authentication, 64."""

EVENT_BYTES_MAX = FRAME_BYTES_MAX - 1024
"""One packed event; the rest of its frame is the events frame's own head."""
EVENTS_PER_FRAME_MAX = 512
"""As many as an array may have."""
EVENTS_BYTES_PER_FRAME = 192 * 1024
"""Target size of one events frame; one larger event (an inline proof) still fits FRAME_BYTES_MAX."""
EVENTS_IN_FLIGHT_MAX = 2048
"""Events sent and not yet acknowledged, per stream of an epoch: the hub's memory for one agent stays bounded."""
EVENTS_IN_FLIGHT_BYTES_MAX = 1024 * 1024
"""The same in bytes of frames: four of the largest."""
OUTPUT_INLINE_BYTES_MAX = 64 * 1024
"""An output carried in its event; a Groth16 proof has about 800."""

NAME_CHARS_MAX = 128
"""Names, identifiers, tokens: whatever a table's column or a label shows."""
TEXT_CHARS_MAX = 8 * 1024
"""Reasons and error texts."""
HELD_RANGES_MAX = 24
"""(epoch, stream) ranges in one hello; older epochs wait for the next session. Keeps the hello under 4 KiB."""
STREAMS_ACKNOWLEDGED_MAX = HELD_RANGES_MAX + 4
"""(epoch, stream) positions in a welcome or an ack: the held ranges, and the streams of the running epoch."""
JOBS_HELD_MAX = 16
"""Jobs an agent is at, or whose results it holds: one a device, and room for results under way."""
FIELDS_MAX = 64
"""Entries of an event's or log record's free fields."""
TIMINGS_MAX = 64
"""Phases in a result's timings."""
FLOAT_MAX = sys.float_info.max
"""A bound that only keeps NaN and infinities out."""
INTEGER_MIN = -(2**63)
"""Free integers fit the signed 64 bits of every store and language."""
INTEGER_MAX = 2**63 - 1
"""The same."""
UNKNOWN_TAGS_MAX = 32
"""Distinct unknown frame types answered in one session; further ones are passed over in silence."""
CONTROL_FRAMES_QUEUED_MAX = 256
"""Commands and replies a shell may queue in a session before it drains them."""
FAREWELL_CHARS_MAX = 512
"""The detail of a Bye or Refused: fits the smaller frames before authentication, whatever its characters."""
GPUS_MAX = 64
"""Cards, and workers, of one node."""
GPU_PROCESSES_MAX = 16
"""Processes listed for one card, those with most memory."""
MIG_INSTANCES_MAX = 8
"""MIG devices of one card: the hardware's own limit is seven."""
ENGINES_MAX = 4
"""Engines beside our own workers."""
ENGINE_JOBS_MAX = 32
"""Jobs an engine's picture lists, oldest first; with 16 partitions each it stays far under one frame."""
ENGINE_PARTITIONS_MAX = 64
"""Partitions of one job; the largest known proof has 16."""
ENGINE_WORKERS_MAX = 64
"""Workers of one engine: two a card is the rule."""
ENGINE_KEYS_MAX = 32
"""Keys an engine keeps; it knows a dozen."""
ENGINE_KINDS_MAX = 32
"""Entries of an engine's counters by kind."""

HEARTBEAT_S = 10.0
"""Between two frames of an agent that has nothing to say; the hub may set another in the welcome."""
READINGS_S = 1.0
"""Between two pushes of changed readings, unless the hub says otherwise; changes of state do not wait."""
SAMPLE_S = 10.0
"""Between two readings that are kept as history, unless the hub says otherwise."""
HEARTBEATS_UNHEARD_MAX = 3
"""Heartbeats without any acknowledgement after which the agent gives the session up."""
TIMER_LATE_S = 2.0
"""A timer that fires later than this was held up by its own side: the peer gets one more heartbeat to be heard."""
STALE_AFTER_S = 30.0
"""Without a frame the node is shown as stale."""
LOST_AFTER_S = 45.0
"""Without a frame the session is ended and the node is lost."""
SEND_DEADLINE_S = 10.0
"""A peer that does not take a frame within this is closed."""
RECONNECT_CAP_S = 20.0
"""Full-jitter backoff while the hub cannot be reached."""
REFUSED_CAP_S = 90.0
"""Same, after refusals."""
