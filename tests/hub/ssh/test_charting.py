"""The doctor looks by itself, by a key the operator named, once each time a node begins to refuse the hub's."""

from pathlib import Path
from typing import Any

from hub import ports
from hub.ssh.cause import Cause
from hub.ssh.charts import NOTHING, finding
from hub.ssh.doctor import Chart, Place
from hub.ssh.symptoms import Kind, Symptom
from tests.hub.rig import Peer
from tests.hub.ssh.fleet import Fleet, fleet, until
from tests.hub.ssh.sshd import make_key, needs_sshd
from tests.hub.ssh.test_authorized import OTHER


def symptom(kind: Kind, *, blocks: bool) -> Symptom:
    return Symptom(
        kind=kind, what=f"what {kind.value}", where="line 2", repair="edit it", installer=True, blocks=blocks
    )


def test_the_first_thing_that_keeps_the_hub_out_is_the_finding() -> None:
    symptoms = (symptom(Kind.CRLF, blocks=False), symptom(Kind.FUSED, blocks=True), symptom(Kind.MODES, blocks=True))
    place = Place(path="/root/.ssh/authorized_keys", user="root", home="/root", seen_from="")
    chart = Chart(place=place, text="", digest="none", lets_in=(), symptoms=symptoms)
    found = finding(chart, 5)
    assert (found.what, found.repair, found.installer, found.sure) == ("what fused (line 2)", "edit it", True, True)


async def doctors(all_: Fleet, peer: Peer) -> list[str]:
    """Why the attempts of the doctor were made, in the store."""
    return [one.purpose for one in await all_.hub.store.ssh_attempts(peer.id) if one.purpose == "doctor"]


@needs_sshd
async def test_it_looks_once_and_only_with_a_key(tmp_path: Path) -> None:
    operators = make_key(tmp_path / "operators_key")
    soon: dict[str, Any] = {"heartbeat_s": 0.5, "stale_after_s": 1.0, "lost_after_s": 1.5}
    async with fleet(tmp_path, ssh_doctor_key=operators, ssh_rehearse_s=3600.0, **soon) as all_:
        peer = await all_.node("node", authorized=False)
        sshd = all_.sshds[peer.id]
        public = operators.with_name(operators.name + ".pub").read_text("ascii").strip()
        hub_public = all_.identity.with_name(all_.identity.name + ".pub").read_text("ascii").strip()
        sshd.authorized_keys.write_text(f"{public}\n{OTHER}{hub_public}\n", "ascii")
        refused = await all_.run(peer)
        assert refused.cause is Cause.IDENTITY_REFUSED
        charts = all_.hub.app[ports.SSH_HELP].keys.charts
        await until(lambda: charts.found(peer.id) is not None)
        found = charts.found(peer.id)
        assert found is not None
        assert found.what != NOTHING
        await all_.run(peer)
        assert all_.hub.app[ports.SSH_HELP].keys.charts.found(peer.id) == found, "not once more for the same refusal"
        assert len(await doctors(all_, peer)) <= 2, "once, in at most two steps"
