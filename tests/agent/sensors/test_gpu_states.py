"""The states of cards, from rounds made by hand: no process, no clock."""

import random
from typing import Any

import pytest

from agent.sensors.gpu_health import ECC_COUNTERS, STRUCK_S, THROTTLE_END_S, GpuEvent
from agent.sensors.gpu_states import WITHDRAWN_S, Fleet, Heard, Report
from agent.sensors.kmsg import KernelXid
from agent.sensors.nvml_messages import Begin, Card, End, Problem, XidSeen
from agent.sensors.xids import XIDS, Kind
from wire.events import Level, NodeEvent
from wire.limits import GPUS_MAX
from wire.readings import GpuReading, GpuState

MINUTE_S = 60.0


def card(index: int, uuid: str = "", *, pages_pending: bool = False, said: str = "", **readings: Any) -> Card:
    uuid = uuid or f"GPU-{index}"
    read = GpuReading(uuid=uuid, index=index, temperature_c=40, name="H200", pci_bus_id=f"00000000:{index:02X}:00.0")
    values = {name: getattr(read, name) for name in read.__struct_fields__} | readings
    return Card(index, GpuReading(**values), uuid, said=said, pages_pending=pages_pending)


def whole(*cards: Card, xids: list[XidSeen] | None = None, skipped: frozenset[int] = frozenset()) -> Heard:
    end = End(count=len(cards) + len(skipped), watches_xids=True)
    return Heard(list(cards), end, skipped=skipped, xids=tuple(xids or ()))


class Story:
    """A fleet, and its time."""

    def __init__(self) -> None:
        self.fleet = Fleet()
        self.now_s = 1000.0
        self.events: list[GpuEvent] = []

    def tell(self, heard: Heard, after_s: float = 5.0) -> Report:
        self.now_s += after_s
        report = self.fleet.take(heard, now_s=self.now_s, unix_ms=int(self.now_s * 1000))
        self.events = report.events
        for event in report.events:
            NodeEvent(event.kind, event.detail, event.level, event.fields)
        return report

    @property
    def kinds(self) -> list[str]:
        return [event.kind for event in self.events]


@pytest.fixture
def story() -> Story:
    return Story()


# --- degraded, and why ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ({"ecc_uncorrected_volatile": 2}, "2 uncorrected ECC errors"),
        ({"remapped_rows_failed": True}, "have the card replaced"),
        ({"remapped_rows_pending": True}, "remapping is pending"),
        ({"pages_pending": True}, "retired pages are pending"),
        ({"said": "nvmlDeviceGetPowerUsage: Unknown Error"}, "Unknown Error"),
    ],
    ids=["ecc", "remap failed", "remap pending", "pages pending", "unreadable"],
)
def test_a_fault_of_a_card_that_answers_degrades_it_and_is_said_once(
    story: Story, bad: dict[str, Any], says: str
) -> None:
    story.tell(whole(card(0)))
    report = story.tell(whole(card(0, **bad)))
    assert report.gpus[0].state is GpuState.DEGRADED
    assert says in report.gpus[0].detail
    assert len(story.kinds) == 1
    assert story.events[0].level is Level.ERROR
    story.tell(whole(card(0, **bad)))
    assert story.kinds == []
    report = story.tell(whole(card(0)))
    assert (report.gpus[0].state, report.gpus[0].detail) == (GpuState.OK, "")


def test_several_faults_are_all_named(story: Story) -> None:
    report = story.tell(whole(card(0, remapped_rows_pending=True, pages_pending=True)))
    assert report.gpus[0].detail.count(";") == 1


@pytest.mark.parametrize("counter", ECC_COUNTERS)
def test_an_increase_of_a_counter_is_an_event_with_both_numbers(story: Story, counter: str) -> None:
    def at(value: int | None) -> list[GpuEvent]:
        readings: dict[str, Any] = {counter: value}
        story.tell(whole(card(0, **readings)))
        return [event for event in story.events if "counter" in event.fields]

    assert at(4) == []
    (event,) = at(7)
    assert event.kind == "gpu.ecc"
    assert (event.fields["counter"], event.fields["new"], event.fields["total"]) == (counter, 3, 7)
    assert [at(value) for value in (7, None, 7)] == [[], [], []]
    assert at(0) == [], "the driver was loaded anew"
    assert len(at(1)) == 1


# --- throttling -----------------------------------------------------------------------------------------------------


def test_throttling_begins_and_ends_once_however_it_flickers(story: Story) -> None:
    story.tell(whole(card(0, throttle_reasons=0x40)))
    assert story.kinds == [], "one reading is no beginning"
    report = story.tell(whole(card(0, throttle_reasons=0x44)))
    assert story.kinds == ["gpu.throttled"]
    assert (story.events[0].level, story.events[0].fields["active"]) == (Level.WARNING, True)
    assert "hardware thermal slowdown" in story.events[0].detail
    assert "power cap" not in story.events[0].detail
    assert report.gpus[0].state is GpuState.DEGRADED
    for bits in (0, 0x20, 0, 0x40, 0, 0):
        story.tell(whole(card(0, throttle_reasons=bits)))
        assert story.kinds == []
    report = story.tell(whole(card(0, throttle_reasons=0)), THROTTLE_END_S)
    assert story.kinds == ["gpu.throttled"]
    assert (story.events[0].level, story.events[0].fields["active"]) == (Level.INFO, False)
    assert "software thermal slowdown" in story.events[0].detail
    assert report.gpus[0].state is GpuState.OK


@pytest.mark.parametrize("bits", [0x1, 0x2, 0x4, 0x10, 0x100, None])
def test_what_every_card_does_is_no_event(story: Story, bits: int | None) -> None:
    for _ in range(5):
        report = story.tell(whole(card(0, throttle_reasons=bits)))
    assert (story.kinds, report.gpus[0].state) == ([], GpuState.OK)


def test_a_lost_card_is_not_throttled_any_more(story: Story) -> None:
    story.tell(whole(card(0, throttle_reasons=8)))
    story.tell(whole(card(0, throttle_reasons=8)))
    story.tell(whole(Card(0, uuid="GPU-0", error=15, said="GPU is lost")))
    story.tell(whole(card(0, throttle_reasons=0)), MINUTE_S)
    assert story.kinds == ["gpu.returned"]


# --- XIDs -----------------------------------------------------------------------------------------------------------


def test_an_xid_of_the_hardware_kind_degrades_the_card_for_an_hour(story: Story) -> None:
    report = story.tell(whole(card(0), xids=[XidSeen(48, "GPU-0")]))
    assert story.kinds == ["gpu.xid"]
    assert report.gpus[0].state is GpuState.DEGRADED
    assert "XID 48" in report.gpus[0].detail
    detail = report.gpus[0].detail
    report = story.tell(whole(card(0)), STRUCK_S / 2)
    assert report.gpus[0].detail == detail, "a detail that moved with time would cost a delta each round"
    assert story.tell(whole(card(0)), STRUCK_S).gpus[0].state is GpuState.OK


@pytest.mark.parametrize("xid", [13, 31, 43, 45, 999])
def test_an_xid_of_an_application_does_not(story: Story, xid: int) -> None:
    report = story.tell(whole(card(0), xids=[XidSeen(xid, "GPU-0")]))
    assert report.gpus[0].state is GpuState.OK
    assert (report.gpus[0].xid_count, report.gpus[0].xid_last) == (1, xid)
    assert story.events[0].level is Level.WARNING


def test_an_xid_in_a_round_that_broke_is_told_too(story: Story) -> None:
    story.tell(whole(card(0)))
    heard = Heard(
        [], None, Begin(0, "GPU-0"), Problem.HUNG, "no answer", kernel_xids=(KernelXid("0000:00:00", 79, "x"),)
    )
    report = story.tell(heard)
    assert set(story.kinds) == {"gpu.xid", "gpu.hung"}
    assert (report.gpus[0].state, report.gpus[0].xid_last) == (GpuState.DRIVER_HUNG, 79)


def test_an_xid_of_a_card_nobody_knows_is_told_by_its_address(story: Story) -> None:
    story.tell(Heard([], End(Problem.MISSING), kernel_xids=(KernelXid("0000:3b:00", 79, "x"),)))
    assert story.events[0].fields["uuid"] == "0000:3b:00"


def test_without_any_source_of_xids_there_is_no_count(story: Story) -> None:
    assert story.tell(Heard([card(0)], End(count=1))).gpus[0].xid_count is None
    assert story.tell(Heard([card(0)], End(count=1), kernel_readable=True)).gpus[0].xid_count == 0


@pytest.mark.parametrize("xid", [48, 63, 64, 74, 79, 94, 95, 119])
def test_the_table_knows_the_hardware_kind(xid: int) -> None:
    assert XIDS[xid].kind is Kind.HARDWARE


@pytest.mark.parametrize("xid", [13, 31, 43, 45])
def test_the_table_knows_the_application_kind(xid: int) -> None:
    assert XIDS[xid].kind is Kind.APPLICATION


def test_every_xid_has_a_name_and_an_action() -> None:
    assert all(row.name and row.action for row in XIDS.values())


# --- cards that do not answer ---------------------------------------------------------------------------------------


def test_a_lost_card_that_does_not_say_its_uuid_is_known_by_its_place(story: Story) -> None:
    story.tell(whole(card(0), card(1)))
    report = story.tell(whole(card(0), Card(1, error=15, said="GPU is lost")))
    assert [(gpu.uuid, gpu.state) for gpu in report.gpus] == [("GPU-0", GpuState.OK), ("GPU-1", GpuState.LOST)]


def test_a_card_that_says_its_uuid_at_last_is_not_listed_twice(story: Story) -> None:
    report = story.tell(whole(card(0), Card(1, error=15, said="GPU is lost")))
    assert [gpu.uuid for gpu in report.gpus] == ["GPU-0", "index-1"]
    report = story.tell(whole(card(0), card(1)))
    assert [gpu.uuid for gpu in report.gpus] == ["GPU-0", "GPU-1"]


def test_indices_move_and_uuids_stay(story: Story) -> None:
    story.tell(whole(card(0), card(1), card(2)))
    report = story.tell(whole(card(0), card(1, "GPU-2")))
    assert [(gpu.uuid, gpu.index, gpu.state) for gpu in report.gpus] == [
        ("GPU-0", 0, GpuState.OK),
        ("GPU-2", 1, GpuState.OK),
        ("GPU-1", None, GpuState.ABSENT),
    ]
    report = story.tell(whole(card(0), Card(1, error=15, said="GPU is lost")))
    assert {gpu.uuid: gpu.state for gpu in report.gpus} == {
        "GPU-0": GpuState.OK,
        "GPU-2": GpuState.LOST,
        "GPU-1": GpuState.ABSENT,
    }


def test_a_reset_that_is_required_is_said(story: Story) -> None:
    report = story.tell(whole(Card(0, uuid="GPU-0", error=16, said="GPU requires reset")))
    assert report.gpus[0].state is GpuState.LOST
    assert "reset the card" in report.gpus[0].detail


def test_what_is_known_of_a_card_stays_when_it_is_lost_and_nothing_changes_with_time(story: Story) -> None:
    story.tell(whole(card(0)))
    lost = whole(Card(0, uuid="GPU-0", error=15, said="GPU is lost"))
    (gpu,) = story.tell(lost, MINUTE_S).gpus
    assert (gpu.name, gpu.pci_bus_id, gpu.temperature_c, gpu.age_s) == ("H200", "00000000:00:00.0", None, None)
    assert story.tell(lost).gpus == [gpu]


def test_skipped_cards_are_not_absent(story: Story) -> None:
    story.tell(whole(card(0), card(1)))
    story.tell(Heard([card(0)], None, Begin(1, "GPU-1"), Problem.HUNG, "no answer"))
    report = story.tell(whole(card(0), skipped=frozenset({1})))
    assert [gpu.state for gpu in report.gpus] == [GpuState.OK, GpuState.DRIVER_HUNG]


def test_cards_the_round_did_not_reach_are_old_then_withdrawn(story: Story) -> None:
    story.tell(whole(card(0), card(1)))
    hung = Heard([], None, Begin(0, "GPU-0"), Problem.HUNG, "no answer")
    (_, other) = story.tell(hung).gpus
    assert (other.state, other.temperature_c, other.age_s) == (GpuState.OK, 40, 5.0)
    (_, other) = story.tell(hung, WITHDRAWN_S).gpus
    assert (other.state, other.temperature_c) == (GpuState.DEGRADED, None)
    assert "cannot be read" in other.detail


def test_waiting_for_the_next_child_is_no_news(story: Story) -> None:
    story.tell(whole(card(0), card(1)))
    broken = Heard([], None, None, Problem.FAILED, "the NVML process ended with signal 9, Killed")
    assert story.tell(broken).problem is Problem.FAILED
    assert story.kinds == ["gpu.unreadable"]
    assert story.tell(broken._replace(waiting=True)).problem is Problem.FAILED
    assert story.kinds == []
    story.tell(whole(card(0), card(1)))
    assert story.kinds == ["gpu.readable"]


def test_a_driver_that_goes_takes_its_cards_with_it(story: Story) -> None:
    story.tell(whole(card(0)))
    report = story.tell(Heard([], End(Problem.MISSING, "Driver Not Loaded")))
    assert report.gpus[0].state is GpuState.ABSENT
    assert story.kinds == ["gpu.lost"]


@pytest.mark.parametrize(
    ("problem", "kind"),
    [(Problem.HUNG, "gpu.hung"), (Problem.MISMATCH, "gpu.mismatch"), (Problem.FAILED, "gpu.unreadable")],
)
def test_where_no_card_is_known_the_node_itself_says_what_is_wrong(story: Story, problem: Problem, kind: str) -> None:
    if problem is Problem.HUNG:
        heard = Heard([], None, None, problem, "no answer")
    else:
        heard = Heard([], End(problem, "Driver/library version mismatch"))
    report = story.tell(heard)
    assert (report.problem, report.gpus, story.kinds) == (problem, [], [kind])
    story.tell(heard)
    assert story.kinds == []


# --- whatever comes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_any_story_keeps_its_promises(seed: int) -> None:
    rng, story = random.Random(seed), Story()
    known: set[str] = set()
    for _ in range(200):
        report = story.tell(_any_round(rng), rng.choice((0.0, 5.0, 40.0)))
        uuids = [gpu.uuid for gpu in report.gpus]
        assert len(uuids) == len(set(uuids)) <= GPUS_MAX
        seen = {uuid for uuid in uuids if not uuid.startswith("index-")}
        assert known <= seen, "a card that was seen stays listed"
        known = seen
        for gpu in report.gpus:
            assert (gpu.state is GpuState.OK) or gpu.detail
            if gpu.state not in (GpuState.OK, GpuState.DEGRADED):
                assert gpu.temperature_c is None
            if gpu.temperature_c is not None and gpu.age_s is None:
                assert gpu.state in (GpuState.OK, GpuState.DEGRADED)


def _any_round(rng: random.Random) -> Heard:
    present = rng.sample(range(8), rng.randint(0, 8))
    cards: list[Card] = []
    for index, number in enumerate(present):
        uuid = f"GPU-{number}"
        match rng.randrange(6):
            case 0:
                cards.append(Card(index, uuid=rng.choice((None, uuid)), error=rng.choice((3, 15, 16, 999)), said="bad"))
            case 1:
                cards.append(card(index, uuid, throttle_reasons=rng.choice((0, 8, 0x40)), ecc_uncorrected_volatile=1))
            case _:
                cards.append(card(index, uuid))
    xids = [XidSeen(rng.choice((13, 79)), f"GPU-{rng.randrange(8)}") for _ in range(rng.randint(0, 3))]
    match rng.randrange(5):
        case 0:
            cut = rng.randint(0, len(cards))
            at = Begin(cut) if rng.random() < 0.5 else None
            problem = rng.choice((Problem.HUNG, Problem.FAILED))
            return Heard(cards[:cut], None, at, problem, "broke", stuck=at is None and rng.random() < 0.5)
        case 1:
            return Heard([], End(rng.choice((Problem.MISSING, Problem.MISMATCH, Problem.FAILED)), "cannot"))
        case _:
            return whole(*cards, xids=xids)
