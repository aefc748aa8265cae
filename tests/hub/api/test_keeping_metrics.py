"""What is told of the store's contents."""

from prometheus_client.parser import text_string_to_metric_families

from hub import ports
from tests.hub.api.conftest import Web
from tests.hub.rig import numbered
from tests.hub.store.test_contract import nothing_to_apply
from wire.frames import Event, Gap, NodeEvent, Readings, Stream
from wire.readings import HostReading


async def scraped(web: Web) -> dict[tuple[str, str], float]:
    text = (await web.ask("GET", "/metrics")).body.decode()
    return {
        (sample.name, next(iter(sample.labels.values()), "")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def test_what_is_kept_and_given_up_is_told_by_kind(web: Web) -> None:
    peer = await web.hub.enroll("node-a")
    store, now_ms = web.app[ports.STORE], web.clock.time_ms()
    old_ms = now_ms - 200 * 86_400_000
    await store.ingest(
        peer.id, peer.epoch, Stream.EVENTS, numbered([NodeEvent("k", "d")] * 3), old_ms, nothing_to_apply
    )
    await store.ingest(
        peer.id, peer.epoch, Stream.EVENTS, numbered([Gap(4, 5, 2, "full")], first=5), now_ms, nothing_to_apply
    )
    body = Readings(HostReading(load_1min=1.0))
    samples = [Event(seq=n, time_ms=now_ms - 10_000 * n, monotonic_ns=0, body=body) for n in range(1, 8)]
    await store.ingest(peer.id, peer.epoch, Stream.READINGS, samples, now_ms, nothing_to_apply)
    late = [Event(seq=8, time_ms=5, monotonic_ns=0, body=body)]
    await store.ingest(peer.id, peer.epoch, Stream.READINGS, late, now_ms, nothing_to_apply)
    await web.app[ports.KEEPERS].retention.sweep()
    told = await scraped(web)
    assert told["provewire_store_rows", "events"] == 1
    assert told["provewire_store_rows", "raw"] == 7
    assert told["provewire_store_bytes", "raw"] > 7 * 100
    assert told["provewire_retention_deleted_total", "events"] == 3
    assert told["provewire_samples_late_total", ""] == 1
    assert told["provewire_rollups_due", ""] > 0
    assert told["provewire_store_file_bytes", ""] > told["provewire_store_free_bytes", ""] >= 0
    assert told["provewire_disk_free_bytes", ""] > 0
    assert told["provewire_quota_left_out_total", "logs"] == 0
