"""The lines of ``provewire status``, from the agent's JSON. Pure: every line is a list of (words, style).

A field that an older agent does not have counts as unread.
"""

from collections.abc import Iterable, Iterator
from typing import Any

Json = dict[str, Any]
Span = tuple[str, str]
Line = list[Span]

LABEL_CHARS = 9
REASONS_SHOWN = 3
JOBS_SHOWN = 4
SKEW_SHOWN_MS = 2_000
KIB, MIB, GIB = 1024, 1024**2, 1024**3
MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86_400
GOOD, ODD, BAD, FAINT = "green", "yellow", "bold red", "dim"
GOOD_STATES = frozenset({"ok", "open", "idle", "proving"})


def lines(status: Json, *, now_ms: int) -> Iterator[Line]:
    """Everything, from the whole to its parts."""
    yield from _head(status)
    yield from _hub(status["hub"], now_ms=now_ms)
    if status["host"] is not None:
        yield labelled("host", [(", ".join(_host(status["host"])), "")])
    yield from _gpus(status, now_ms=now_ms)
    for engine in status.get("engines", []):
        yield from _engine(engine, now_ms=now_ms)
    yield from _workers(status)
    yield from _jobs(status["jobs"])
    yield from _outbox(status)
    yield from _logs(status)


def labelled(label: str, spans: Iterable[Span]) -> Line:
    """A line that begins with what it is about."""
    return [(f"{label} ".ljust(LABEL_CHARS), "bold" if label else ""), *spans]


def columns(rows: list[list[Span]]) -> list[list[Span]]:
    """Rows with their cells under one another; the last column is not filled up."""
    widths = [max(len(row[place][0]) for row in rows) for place in range(len(rows[0]))] if rows else []
    return [
        [
            (text if place == len(row) - 1 else text.ljust(widths[place] + 2), style)
            for place, (text, style) in enumerate(row)
        ]
        for row in rows
    ]


# --- the agent and its hub ------------------------------------------------------------------------------------------


def _head(status: Json) -> Iterator[Line]:
    health = ("healthy", GOOD) if status["healthy"] else ("NOT HEALTHY", BAD)
    about = f"  agent {status['version']}, pid {status['pid']}, up {duration(status['uptime_s'])}"
    yield [(f"{status['name']}  ", "bold"), health, (about, ""), ("  observes only" if status["observe"] else "", ODD)]
    yield [(f"id {status['agent_id'] or '(not enrolled yet)'}, epoch {status['epoch']}", FAINT)]


def _hub(hub: Json, *, now_ms: int) -> Iterator[Line]:
    age = "nothing acknowledged yet"
    if hub["last_ack_age_s"] is not None:
        age = f"last acknowledged {duration(hub['last_ack_age_s'])} ago"
    skew_ms = hub["clock_skew_ms"] or 0
    skew = f"  the clocks differ by {duration(abs(skew_ms) / 1000)}" if abs(skew_ms) > SKEW_SHOWN_MS else ""
    yield labelled("hub", [_state(hub["state"]), (f"  {hub['url'] or '(unknown)'}  {age}", ""), (skew, ODD)])
    if hub["insecure"]:
        yield labelled("", [("--insecure: a hub without TLS is allowed", BAD)])
    if hub["next_attempt_in_s"] is not None:
        yield labelled("", [(f"attempt {hub['attempts'] + 1} in {duration(hub['next_attempt_in_s'])}", "")])
    for number, reason in enumerate(hub.get("reasons", [])[:REASONS_SHOWN]):
        times = f", {reason['times']} times" if reason["times"] > 1 else ""
        code = "" if reason["code"] is None else f" ({reason['code']})"
        was_open = "" if reason["open_s"] is None else f" after {duration(reason['open_s'])} open"
        text = f"{_ago(reason['at_ms'], now_ms)}{times}: {reason['name']}{code}{was_open}: {reason['detail']}"
        yield labelled("reasons" if number == 0 else "", [(text, FAINT if hub["state"] == "open" else ODD)])


# --- the machine ----------------------------------------------------------------------------------------------------


def _host(host: Json) -> Iterator[str]:
    cores = host.get("cpu_limit_cores")
    limit = "" if cores is None else f", limited to {cores:g}"
    yield f"{_or_mark(host['cpu_count'])} cpus {ratio(host['cpu_used_ratio'])} busy{limit}"
    limit_bytes = host.get("memory_limit_bytes")
    limit = "" if limit_bytes is None else f" (limit: {of(host.get('memory_limit_used_bytes'), limit_bytes)})"
    yield f"memory {of(host['memory_used_bytes'], host['memory_total_bytes'])}{limit}"
    yield f"disk {size(host['disk_free_bytes'])} free"
    if host.get("temperature_c") is not None:
        yield f"{host['temperature_c']:.0f} °C"
    if host.get("container") not in (None, "none"):
        yield f"in {host['container']}"


def _gpus(status: Json, *, now_ms: int) -> Iterator[Line]:
    rows = columns([_gpu_cells(gpu) for gpu in status["gpus"]])
    for gpu, row in zip(status["gpus"], rows, strict=True):
        index = gpu.get("index")
        yield labelled("gpu" if index is None else f"gpu {index}", row)
        notes = "; ".join(_gpu_notes(gpu, now_ms=now_ms))
        if notes:
            yield labelled("", [(notes, BAD if gpu["state"] not in GOOD_STATES else ODD)])
    if status["gpu_problem"] and not status["gpus"]:
        yield labelled("gpu", [(status["gpu_problem"], FAINT)])


def _gpu_cells(gpu: Json) -> list[Span]:
    heat = gpu.get("temperature_c")
    return [
        _state(gpu["state"]),
        (gpu["name"] or gpu["uuid"], ""),
        (f"{ratio(gpu.get('utilization_ratio'))} busy", ""),
        (of(gpu["memory_used_bytes"], gpu["memory_total_bytes"]), ""),
        ("? °C" if heat is None else f"{heat:.0f} °C", ""),
        (f"{_watts(gpu.get('power_draw_mw'))} of {_watts(gpu.get('power_limit_mw'))} W", ""),
    ]


def _gpu_notes(gpu: Json, *, now_ms: int) -> Iterator[str]:
    from agent.sensors.gpu_health import THROTTLE_SAID, throttle_names  # noqa: PLC0415 - in its own subcommand only

    if gpu.get("detail"):
        yield gpu["detail"]
    if gpu.get("age_s") is not None:
        yield f"these readings are {duration(gpu['age_s'])} old"
    if gpu.get("xid_count"):
        last, when_ms = gpu.get("xid_last"), gpu.get("xid_last_time_ms")
        when = "" if when_ms is None else f" {_ago(when_ms, now_ms)}"
        yield f"{counted(gpu['xid_count'], 'XID')}, last {_or_mark(last)}{when}"
    if gpu.get("ecc_uncorrected_volatile"):
        yield counted(gpu["ecc_uncorrected_volatile"], "uncorrected ECC error")
    throttled = (gpu.get("throttle_reasons") or 0) & THROTTLE_SAID
    if throttled:
        yield f"held back: {throttle_names(throttled)}"


# --- who works ------------------------------------------------------------------------------------------------------


def _engine(engine: Json, *, now_ms: int) -> Iterator[Line]:
    answered_ms = engine["answered_at_ms"]
    age = "never answered" if answered_ms is None else f"answered {_ago(answered_ms, now_ms)}"
    running = [job for job in engine["jobs"] if job["state"] == "running"]
    words = [
        f"{counted(len(running), 'job')} running",
        f"{_or_mark(engine['queued'])} partitions queued",
        f"{_or_mark(engine['completed'])} done",
        f"{_or_mark(engine['failed'])} failed",
        age,
    ]
    told = ", ".join(words) if engine["state"] in GOOD_STATES else age
    yield labelled(engine["engine"], [_state(engine["state"]), (f"  {told}", "")])
    if engine["detail"]:
        yield labelled("", [(engine["detail"], ODD)])
    for job in engine["jobs"][:JOBS_SHOWN]:
        total = f" {job['partitions_done']}/{job['partitions_total']}" if job["partitions_total"] else ""
        since = "" if job["started_at_ms"] is None else f", since {_since(job['started_at_ms'], now_ms)}"
        detail = f": {job['detail']}" if job["detail"] else ""
        yield labelled("", [(f"{job['kind']}{total}{since}  {job['id']}  {job['state']}{detail}", FAINT)])
    more = len(engine["jobs"]) - JOBS_SHOWN + engine["jobs_left_out"]
    if more > 0:
        yield labelled("", [(f"and {counted(more, 'more job')}", FAINT)])


def _workers(status: Json) -> Iterator[Line]:
    rows = [
        [
            _state(worker["state"]),
            (worker["device"], ""),
            (worker["detail"] if worker["pid"] is None else f"pid {worker['pid']}  {worker['detail']}".rstrip(), ""),
        ]
        for worker in status["workers"]
    ]
    for worker, row in zip(status["workers"], columns(rows), strict=True):
        yield labelled("worker", row)
        if worker.get("on_host"):
            yield labelled("", [(f"proves on the CPU instead of its card: {worker['on_host']}", BAD)])


def _jobs(jobs: list[Json]) -> Iterator[Line]:
    rows = [
        [
            (job["job"], ""),
            (f"attempt {job['attempt']}", ""),
            (job["phase"], GOOD),
            (f"{job['done']}/{job['total']}" if job["total"] else "", ""),
            (duration(job["elapsed_s"]), ""),
        ]
        for job in jobs
    ]
    for row in columns(rows):
        yield labelled("job", row)


def _outbox(status: Json) -> Iterator[Line]:
    outbox, streams = status["outbox"], status.get("streams", {})
    held = [f"{each['events']} {name}" for name, each in streams.items() if each["events"]]
    detail = f": {', '.join(held)}" if held else ""
    words = f"{counted(outbox['events_held'], 'event')} held, {size(outbox['bytes_held'])}{detail}"
    yield labelled("outbox", [(words if outbox["events_held"] else "nothing held: the hub has everything", "")])
    dropped = [
        f"{count} {name} ({reason})" for name, each in streams.items() for reason, count in each["dropped"].items()
    ]
    if dropped:
        yield labelled("", [(f"dropped: {', '.join(dropped)}", ODD)])
    refused = [f"{each['refused']} {name}" for name, each in streams.items() if each["refused"]]
    if refused:
        yield labelled("", [(f"lost, because the disk took nothing: {', '.join(refused)}", BAD)])


def _logs(status: Json) -> Iterator[Line]:
    """Only those that cannot be read: the others are what one expects."""
    rows = [
        [(each["state"], ODD), (each["source"], ""), (each["detail"], "")]
        for each in status.get("logs", ())
        if each["state"] != "reading"
    ]
    for row in columns(rows):
        yield labelled("log", row)


# --- words ----------------------------------------------------------------------------------------------------------


def _state(state: str) -> Span:
    return state, GOOD if state in GOOD_STATES else ODD


def _or_mark(value: object) -> str:
    return "?" if value is None else f"{value}"


def _watts(milliwatts: int | None) -> str:
    return "?" if milliwatts is None else f"{milliwatts / 1000:.0f}"


def _ago(at_ms: int, now_ms: int) -> str:
    return f"{_since(at_ms, now_ms)} ago"


def _since(at_ms: int, now_ms: int) -> str:
    return duration(max(0, now_ms - at_ms) / 1000)


def counted(count: int, what: str) -> str:
    """A number and what it counts."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def ratio(value: float | None) -> str:
    """A ratio in percent."""
    return "?" if value is None else f"{value:.0%}"


def duration(seconds: float) -> str:
    """Seconds as people say them."""
    if seconds < MINUTE_S:
        return f"{seconds:.0f} s"
    if seconds < HOUR_S:
        return f"{seconds // MINUTE_S:.0f} min {seconds % MINUTE_S:.0f} s"
    if seconds < DAY_S:
        return f"{seconds // HOUR_S:.0f} h {seconds % HOUR_S // MINUTE_S:.0f} min"
    return f"{seconds // DAY_S:.0f} d {seconds % DAY_S // HOUR_S:.0f} h"


def size(size_bytes: int | None) -> str:
    """Bytes as people say them; a question mark for what cannot be read."""
    if size_bytes is None:
        return "?"
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if size_bytes >= unit:
            return f"{size_bytes / unit:.1f} {name}"
    return f"{size_bytes} B"


def of(part_bytes: int | None, whole_bytes: int | None) -> str:
    """Part of a whole, in GiB both."""
    return f"{_gib(part_bytes)} of {_gib(whole_bytes)} GiB"


def _gib(size_bytes: int | None) -> str:
    return "?" if size_bytes is None else f"{size_bytes / GIB:.1f}"
