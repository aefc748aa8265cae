import json
import os
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kernels.curves import BN254
from prover import circuits
from prover.errors import MalformedFile, Mismatch, ProverError
from prover.formats import snarkjson
from prover.formats.snarkjson import (
    Proof,
    proof_from_json,
    proof_to_json,
    public_from_json,
    public_to_json,
    read_bounded,
    vkey_from_json,
    vkey_from_zkey,
    vkey_to_json,
)
from prover.formats.zkey import ZKey

KEY_TEXT = circuits.VERIFICATION_KEY.read_text("ascii")
PROOF = Proof(BN254.g1, BN254.g2, BN254.g1)
AT_INFINITY = Proof(None, None, None)

coordinates = st.integers(0, BN254.q - 1)
pairs = st.tuples(coordinates, coordinates)


def test_the_bundled_key_is_exported_byte_for_byte_as_snarkjs_did() -> None:
    with ZKey.open(circuits.ZKEY) as zkey:
        key = vkey_from_zkey(zkey)
    assert vkey_to_json(key) == KEY_TEXT
    assert vkey_from_json(KEY_TEXT) == key
    assert key.n_public == 2


@given(a=st.none() | pairs, b=st.none() | st.tuples(pairs, pairs), c=st.none() | pairs)
@example(a=None, b=None, c=None)
def test_a_proof_comes_back_from_its_text(
    a: tuple[int, int] | None, b: tuple[tuple[int, int], tuple[int, int]] | None, c: tuple[int, int] | None
) -> None:
    text = proof_to_json(Proof(a, b, c))
    assert proof_from_json(text) == proof_from_json(text.encode()) == Proof(a, b, c)
    assert text == json.dumps(json.loads(text), indent=1)


def test_keys_of_a_proof_stand_in_snarkjs_order_and_infinity_is_written_its_way() -> None:
    document = json.loads(proof_to_json(AT_INFINITY))
    assert list(document) == ["pi_a", "pi_b", "pi_c", "protocol", "curve"]
    assert document["pi_a"] == ["0", "1", "0"]
    assert document["pi_b"] == [["0", "0"], ["1", "0"], ["0", "0"]]
    assert (document["protocol"], document["curve"]) == ("groth16", "bn128")


@given(st.lists(st.integers(0, BN254.r - 1), max_size=5))
def test_public_signals_come_back_from_their_text(public: list[int]) -> None:
    assert public_from_json(public_to_json(public)) == public


def test_no_public_signals_are_written_with_snarkjs_line_break() -> None:
    assert public_to_json([]) == "[\n]"
    assert public_to_json([5]) == '[\n "5"\n]'


@pytest.mark.parametrize("curve", ["bn128", "BN254", "alt_bn128", "AltBn128"])
def test_other_names_of_the_curve_and_their_absence_are_read(curve: str) -> None:
    document = json.loads(proof_to_json(PROOF))
    assert proof_from_json(json.dumps({**document, "curve": curve})) == PROOF
    del document["curve"], document["protocol"]
    assert proof_from_json(json.dumps(document)) == PROOF


def proof_with(**changes: object) -> str:
    return json.dumps({**json.loads(proof_to_json(PROOF)), **changes})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not JSON"),
        ("{", "is not JSON"),
        (b"\xff\xfe\xfd", "is not JSON"),
        ("[" * 60_000, "is not JSON"),
        ("9" * 60_000, "is not JSON"),
        ("[]", "is not a JSON object"),
        (" " * (snarkjson.PROOF_BYTES_MAX + 1), "at most 65536 bytes"),
        (proof_with(pi_a=None), "pi_a: is missing or is not an array of 3"),
        (proof_with(pi_a=["1", "2"]), "pi_a: is missing or is not an array of 3"),
        (proof_with(pi_a={"0": 1}), "pi_a: is missing or is not an array of 3"),
        (proof_with(pi_c=["1", "2", "3"]), "pi_c: the third coordinate must be 1"),
        (proof_with(pi_c=["0", "2", "0"]), "pi_c: the third coordinate must be 1"),
        (proof_with(pi_b=[["0", "0"], ["0", "1"], ["0", "0"]]), "pi_b: the third coordinate must be 1"),
        (proof_with(pi_b=[["1", "0"], ["1", "0"], ["1"]]), "pi_b: is missing or is not an array of 2"),
        (proof_with(pi_a=[1, "2", "1"]), "pi_a: a decimal string"),
        (proof_with(pi_a=["-1", "2", "1"]), "pi_a: a decimal string"),
        (proof_with(pi_a=["1_0", "2", "1"]), "pi_a: a decimal string"),
        (proof_with(pi_a=["\u0661", "2", "1"]), "pi_a: a decimal string"),
        (proof_with(pi_a=["1" * 121, "2", "1"]), "pi_a: a decimal string"),
        (proof_with(pi_a=[str(BN254.q), "2", "1"]), "pi_a: a coordinate is not below"),
        (proof_with(curve="secp256k1"), "curve: 'secp256k1' is no known curve"),
        (proof_with(curve=7), "curve: 7 is no known curve"),
    ],
)
def test_a_damaged_proof_is_one_sentence(text: str | bytes, message: str) -> None:
    with pytest.raises(MalformedFile) as caught:
        proof_from_json(text, "p.json")
    assert message in str(caught.value)
    assert str(caught.value).startswith("p.json: ")


def test_proofs_of_other_systems_are_refused_by_name() -> None:
    with pytest.raises(Mismatch, match="protocol: is 'plonk'; only groth16"):
        proof_from_json(proof_with(protocol="plonk"))


@pytest.mark.parametrize("text", ["{}", '["-1"]', "[1]", '[["1"]]', "null", '["0x10"]', '[""]'])
def test_damaged_public_signals_are_refused(text: str) -> None:
    with pytest.raises(MalformedFile):
        public_from_json(text)


def key_with(**changes: object) -> str:
    return json.dumps({**json.loads(KEY_TEXT), **changes})


# On the twist, and outside of the subgroup that the generator spans.
OUTSIDE = [
    ["2", "0"],
    [
        "10993830646704400342460079956282858283368423716262815588736825818221725267450",
        "19651196284784701048630008112400756208183277717409031481820775712594563219220",
    ],
    ["1", "0"],
]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"IC": []}, "IC: is missing"),
        ({"IC": "x"}, "IC: is missing"),
        ({"nPublic": 3}, "nPublic: does not fit the 3 points of IC"),
        ({"nPublic": "2"}, "nPublic: does not fit"),
        ({"vk_alpha_1": ["1", "3", "1"]}, "alpha1: the point does not lie on the curve"),
        ({"vk_alpha_1": ["0", "1", "0"]}, "alpha1: is the point at infinity"),
        ({"vk_delta_2": [["0", "0"], ["1", "0"], ["0", "0"]]}, "delta2: is the point at infinity"),
        ({"vk_gamma_2": [["1", "0"], ["1", "0"], ["1", "0"]]}, "gamma2: the point does not lie on the curve"),
        ({"vk_gamma_2": OUTSIDE}, "gamma2: the point does not lie in the subgroup"),
        ({"IC": [["1", "2", "1"], ["1", "2", "1"], ["1", "3", "1"]]}, "IC[2]: the point does not lie on the curve"),
    ],
)
def test_a_damaged_verification_key_is_one_sentence(changes: dict[str, object], message: str) -> None:
    with pytest.raises(MalformedFile) as caught:
        vkey_from_json(key_with(**changes), "vk.json")
    assert message in str(caught.value)


def test_infinity_is_legal_in_ic_and_alphabeta_is_not_read() -> None:
    key = vkey_from_json(key_with(IC=[["0", "1", "0"]], nPublic=0, vk_alphabeta_12="anything"))
    assert (key.ic, key.n_public) == ((None,), 0)


@given(at=st.integers(0, len(KEY_TEXT) - 1), replacement=st.sampled_from(["", "x", "9", '"', "]", "[", "\\", "-"]))
@settings(max_examples=150, deadline=None)
def test_a_mutated_verification_key_is_refused_or_still_a_key(at: int, replacement: str) -> None:
    try:
        key = vkey_from_json(KEY_TEXT[:at] + replacement + KEY_TEXT[at + 1 :])
    except ProverError as error:
        refused: ProverError | None = error
    else:
        refused = None
        assert key.n_public >= 0
    assert refused is None or "\n" not in str(refused)


def test_files_are_read_up_to_a_limit(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"12345")
    assert read_bounded(tmp_path / "f", 5) == b"12345"
    with pytest.raises(MalformedFile, match="larger than the 4 bytes"):
        read_bounded(tmp_path / "f", 4)
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path, tmp_path / "fifo", Path("/dev/zero")):
        with pytest.raises(MalformedFile, match="is not a regular file"):
            read_bounded(path, 10)
    with pytest.raises(MalformedFile, match="cannot be opened"):
        read_bounded(tmp_path / "absent", 10)
