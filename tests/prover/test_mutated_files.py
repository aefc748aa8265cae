"""Damaged files all the way through the prover: a typed error, a proof refused by itself, or one that still holds."""

import resource
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from kernels.curves import BN254, CURVES, Curve
from prover.backends.base import Backend
from prover.backends.host import HostBackend
from prover.errors import MalformedFile, Mismatch
from prover.formats.snarkjson import (
    proof_from_json,
    proof_to_json,
    public_from_json,
    public_to_json,
    vkey_from_json,
    vkey_to_json,
)
from prover.formats.wtns import Witness
from prover.formats.zkey import ZKey
from prover.groth16 import prove
from prover.verify import why_rejected
from tests.prover.mutation import KINDS, Bundle, Kind, flips, structural

GROWTH_KIB_MAX = 64 << 10
"""More memory than this at any moment would be a count that was believed."""


@pytest.fixture(scope="module")
def backend() -> Iterator[Backend]:
    with HostBackend() as opened:
        yield opened


@pytest.fixture(scope="module", params=CURVES, ids=lambda curve: curve.ident)
def bundle(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, backend: Backend) -> Bundle:
    curve: Curve = request.param
    made = Bundle.make(tmp_path_factory.mktemp(curve.ident), curve, backend)
    for kind in KINDS:
        assert made.outcome(kind, made.files[kind], backend) == "proof"
    return made


def tally(bundle: Bundle, kind: Kind, backend: Backend, damaged: Iterator[tuple[str, bytes]]) -> Counter[str]:
    """Count how all of them ended."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seen: Counter[str] = Counter()
    for what, data in damaged:
        try:
            seen[bundle.outcome(kind, data, backend)] += 1
        except BaseException as error:
            error.add_note(f"{kind}: {what}")
            raise
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < GROWTH_KIB_MAX
    return seen


@pytest.mark.parametrize("kind", KINDS)
def test_damage_to_the_structure_is_named(bundle: Bundle, backend: Backend, kind: Kind) -> None:
    """Every byte of every header, every count, every border of a section; a part of them where keys take long."""
    damaged = structural(kind, bundle.files[kind])
    seen = tally(bundle, kind, backend, islice(damaged, 0, None, 1 if bundle.curve == BN254 else 4))
    assert seen["MalformedFile"] > 0.8 * seen.total(), seen


@pytest.mark.parametrize("kind", KINDS)
def test_damage_to_a_value_is_named_or_refused(bundle: Bundle, backend: Backend, kind: Kind) -> None:
    seen = tally(bundle, kind, backend, flips(bundle.files[kind], 61 if bundle.curve == BN254 else 149, 12))
    # Bytes that nothing depends on: labels, contributions, points and coefficients of wires that are zero.
    assert seen["proof"] < 0.25 * seen.total(), seen


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", KINDS)
def test_damage_to_any_byte(bundle: Bundle, backend: Backend, kind: Kind) -> None:
    seen = tally(bundle, kind, backend, flips(bundle.files[kind], 1))
    tally(bundle, kind, backend, structural(kind, bundle.files[kind]))
    assert seen["proof"] < 0.25 * seen.total(), seen


def judged(vkey: str, public: str, proof: str) -> object:
    """What `verify` makes of three texts: why not, or, where it accepts them, what it understood."""
    said = ""
    try:
        key = vkey_from_json(vkey, "vkey.json")
        values = public_from_json(public, "public.json")
        parsed = proof_from_json(proof, "proof.json")
    except (MalformedFile, Mismatch) as error:
        said = str(error)
    if said:
        assert "\n" not in said
        assert said.split(": ")[0] in {"vkey.json", "public.json", "proof.json"}
        return said
    problem = why_rejected(key, values, parsed)
    return problem or (key, values, parsed)


def damaged_texts(text: str, step: int) -> Iterator[str]:
    """Yield texts with a character changed or left out, or cut off."""
    for at in range(0, len(text), step):
        for replacement in (chr(ord(text[at]) ^ 1), "", "9"):
            yield text[:at] + replacement + text[at + 1 :]
        yield text[:at]


def check_texts(bundle: Bundle, backend: Backend, step: int) -> None:
    """What is accepted must be understood as the undamaged texts are."""
    with (
        ZKey.open(bundle.folder / "good.zkey") as zkey,
        Witness.open(bundle.folder / "f.wtns") as witness,
    ):
        result = prove(zkey, witness, backend)
    texts = {
        "vkey": vkey_to_json(bundle.vkey),
        "public": public_to_json(result.public),
        "proof": proof_to_json(result.proof),
    }
    expected = judged(**texts)
    assert not isinstance(expected, str)
    for name, text in texts.items():
        seen = Counter(
            "accepted" if not isinstance(found, str) else "refused"
            for damaged in damaged_texts(text, step)
            if isinstance(found := judged(**{**texts, name: damaged}), str) or found == expected or pytest.fail(damaged)
        )
        assert seen["refused"] > 0.3 * seen.total(), (name, seen)


def test_a_damaged_document_is_refused_or_understood_all_the_same(bundle: Bundle, backend: Backend) -> None:
    check_texts(bundle, backend, 67)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_document_with_any_character_damaged(bundle: Bundle, backend: Backend) -> None:
    check_texts(bundle, backend, 1)


@pytest.mark.parametrize("text", ["[" * 5000, '{"a":' * 3000, '"', "[1e400]", "NaN", '["\\ud800"]', "{}" * 2])
def test_absurd_documents_are_refused_by_all_three_readers(text: str) -> None:
    for read in (vkey_from_json, public_from_json, proof_from_json):
        with pytest.raises(MalformedFile):
            read(text, "f.json")


def test_a_count_in_a_document_beyond_its_points(tmp_path: Path) -> None:
    text = '{"curve": "bn128", "protocol": "groth16", "nPublic": 4294967295, "IC": [["0", "1", "0"]]}'
    with pytest.raises(MalformedFile, match="nPublic: does not fit the 1 points of IC"):
        vkey_from_json(text, tmp_path / "vkey.json")
