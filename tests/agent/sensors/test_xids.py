from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.sensors.kmsg import RECORDS_PER_LOOK_MAX, KernelLog, KernelXid, pci_key, xids_of
from agent.sensors.xids import FORGET_S, KEYS_MAX, Source, XidCounts

LINES = {
    "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.": ("0000:3b:00", 79),
    "3,1,2,-;NVRM: Xid (PCI:0000:C3:00): 31, pid=12, name=prover, Ch 00000010": ("0000:c3:00", 31),
    "[1234.5] NVRM: Xid (0000:03:00): 14, Channel 00000001": ("0000:03:00", 14),
    "NVRM: Xid (PCI:00000001:00:1f GPU-I:03): 13, pid=1": ("0001:00:1f", 13),
}


@pytest.mark.parametrize(("line", "expected"), LINES.items(), ids=["newer", "record", "older", "mig"])
def test_an_xid_is_found_in_the_kernels_line(line: str, expected: tuple[str, int]) -> None:
    (found,) = xids_of(line)
    assert (found.pci, found.xid) == expected
    assert found.said.startswith("NVRM: Xid")


@pytest.mark.parametrize("line", ["", "NVRM: Xid (PCI:zz:00:00): 5", "NVRM: loading", "Xid (PCI:0000:03:00): 5"])
def test_other_lines_are_passed_over(line: str) -> None:
    assert xids_of(line) == []


@given(st.text(max_size=200))
def test_any_line_is_read_without_an_error(text: str) -> None:
    xids_of(text)
    xids_of(f"NVRM: Xid (PCI:{text}): {text}")
    pci_key(text)


def test_both_spellings_of_an_address_are_one() -> None:
    assert pci_key("00000000:3B:00.0") == pci_key("0000:3b:00") == "0000:3b:00"
    assert pci_key("nonsense") is None


# --- the log --------------------------------------------------------------------------------------------------------


def test_the_log_is_followed_from_its_end(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.write_text("NVRM: Xid (PCI:0000:3b:00): 79, old\n")
    log = KernelLog(path)
    assert (log.xids(), log.closed) == ([], "")
    with path.open("a") as file:
        file.write("6,1,1,-;usb: hello\n6,1,1,-;NVRM: Xid (PCI:0000:3b:00): 48, new\n")
    assert log.xids() == [KernelXid("0000:3b:00", 48, "NVRM: Xid (PCI:0000:3b:00): 48, new")]
    assert log.xids() == []
    log.close()
    assert log.xids() == []


def test_a_closed_log_is_told_and_harmless(tmp_path: Path) -> None:
    log = KernelLog(tmp_path / "none")
    assert log.closed == "No such file or directory"
    assert log.xids() == []


def test_a_flood_is_read_in_portions(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.touch()
    log = KernelLog(path)
    line = "NVRM: Xid (PCI:0000:3b:00): 31, x".ljust(8191) + "\n"
    with path.open("a") as file:
        for _ in range(RECORDS_PER_LOOK_MAX + 5):
            file.write(line)
    assert len(log.xids()) == RECORDS_PER_LOOK_MAX
    assert len(log.xids()) == 5
    log.close()


def test_this_machines_own_log_is_open_or_says_why_not() -> None:
    log = KernelLog()
    log.xids()
    assert (log._descriptor is None) == bool(log.closed)
    log.close()


# --- counts ---------------------------------------------------------------------------------------------------------


def taken(counts: XidCounts) -> list[tuple[str, int, int, int]]:
    return [(each.card, each.xid, each.new, each.total) for each in counts.take()]


def test_a_repeated_xid_counts_again() -> None:
    counts = XidCounts()
    counts.add("a", 31, Source.NVML, 1.0)
    assert taken(counts) == [("a", 31, 1, 1)]
    assert taken(counts) == []
    counts.add("a", 31, Source.NVML, 2.0)
    counts.add("a", 31, Source.NVML, 2.0)
    assert taken(counts) == [("a", 31, 2, 3)]
    assert counts.total("a") == 3


@pytest.mark.parametrize("order", [(Source.NVML, Source.KERNEL), (Source.KERNEL, Source.NVML)])
def test_what_both_tell_is_counted_once_in_whatever_order_and_round(order: tuple[Source, Source]) -> None:
    counts = XidCounts()
    for source in order:
        for _ in range(3):
            counts.add("a", 79, source, 10.0)
        list(counts.take())
    assert counts.total("a") == 3


def test_what_only_one_of_them_tells_is_counted_too() -> None:
    counts = XidCounts()
    counts.add("a", 79, Source.NVML, 0.0)
    counts.add("a", 79, Source.KERNEL, FORGET_S + 1.0)
    assert counts.total("a") == 2
    counts.add("a", 79, Source.NVML, FORGET_S + 2.0)
    assert counts.total("a") == 2


def test_the_kernels_words_are_kept_until_they_are_told() -> None:
    counts = XidCounts()
    counts.add("a", 79, Source.KERNEL, 1.0, "pid=5")
    counts.add("a", 79, Source.NVML, 1.0)
    assert [each.said for each in counts.take()] == ["pid=5"]


def test_pairs_are_bounded_and_the_oldest_goes() -> None:
    counts = XidCounts()
    for number in range(KEYS_MAX + 10):
        counts.add("a", number, Source.NVML, float(number))
    assert counts.total("a") == KEYS_MAX
    assert min(each.xid for each in counts.take()) == 10
