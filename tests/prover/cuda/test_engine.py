"""The worker's engine on a card: a key stays there, and a card that failed is opened anew for the next job."""

import pytest

from prover import circuits
from prover.backends.device import DeviceBackend
from prover.errors import DeviceError
from prover.formats.snarkjson import proof_from_json, public_from_json, vkey_from_json
from prover.verify import verify
from prover.worker import engines
from prover.worker.engine import Proved, Work
from tests.prover.cuda.simulated import NamedImages, SimulatedDriver


def work() -> Work:
    inputs = {"zkey": circuits.ZKEY, "wtns": circuits.WITNESS}
    return Work(inputs=inputs, report=lambda _phase, _done, _total: None, cancelled=lambda: False)


def check(proved: Proved) -> None:
    proof = next(output.data for output in proved.outputs if output.role == "proof")
    public = next(output.data for output in proved.outputs if output.role == "public")
    key = vkey_from_json(circuits.VERIFICATION_KEY.read_bytes())
    assert verify(key, public_from_json(public), proof_from_json(proof))


def test_a_card_that_failed_is_opened_anew_for_the_next_job(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = SimulatedDriver()
    asked: list[tuple[str, int | None]] = []

    def open_card(device: str, *, max_vram_bytes: int | None = None, on_host: object = None) -> DeviceBackend:
        assert on_host is not None
        asked.append((device, max_vram_bytes))
        return DeviceBackend(3, driver, NamedImages(), max_vram_bytes=max_vram_bytes)

    monkeypatch.setattr(engines, "open_backend", open_card)
    engine = engines.engines(max_vram_bytes=1 << 30)["groth16"]("cuda:3")
    engine.open()
    check(engine.prove(work()))
    loaded = driver.launches.count("bn254_row_count")
    check(engine.prove(work()))
    assert driver.launches.count("bn254_row_count") == loaded, "the key stays"
    driver.fail_at = len(driver.calls) + 40
    with pytest.raises(DeviceError, match=r"cuda:3: .* failed in the stage"):
        engine.prove(work())
    assert not driver.leaks()
    engine.open()
    check(engine.prove(work()))
    engine.close()
    assert not driver.leaks()
    assert asked == [("cuda:3", 1 << 30)] * 2
