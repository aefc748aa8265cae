"""``setup``, ``zkey`` and ``prove --check-witness``: exit codes, one sentence for what is wrong, one JSON line."""

import json
import struct
from pathlib import Path

import pytest

from cli.main import main
from hub.verify import FileProblem, Verifier
from kernels.curves import BLS12_381, BN254, CURVES, Curve
from prover import circuits
from prover.formats.snarkjson import proof_from_json, public_from_json, vkey_from_json
from prover.formats.zkey import UNSAFE_NAME
from prover.verify import verify
from tests.prover.r1cs_writer import r1cs_file, r1cs_of, wtns_file
from tests.prover.toy import MIXED, MULTIPLY, Circuit, mixed_witness, setup

pytestmark = pytest.mark.compiler
Capture = pytest.CaptureFixture[str]


def sentence(capsys: Capture) -> str:
    """What was said: one sentence on stderr, nothing on stdout."""
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = said.err.strip().splitlines()
    assert line.startswith("provewire: ")
    return line


@pytest.fixture(params=CURVES, ids=lambda curve: curve.ident)
def curve(request: pytest.FixtureRequest) -> Curve:
    found = request.param
    assert isinstance(found, Curve)
    return found


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "c.r1cs").write_bytes(r1cs_file(MIXED, BN254))
    (tmp_path / "w.wtns").write_bytes(wtns_file(mixed_witness(), BN254))
    return tmp_path


def prove_arguments(folder: Path, *options: str) -> list[str]:
    named = {"zkey": "k.zkey", "wtns": "w.wtns", "proof": "p.json", "public": "s.json"}
    return ["prove", *(part for name, file in named.items() for part in (f"--{name}", str(folder / file))), *options]


def test_from_constraints_to_a_verified_proof(tmp_path: Path, curve: Curve, capsys: Capture) -> None:
    """The five commands one after the other, over both curves."""
    (tmp_path / "c.r1cs").write_bytes(r1cs_file(MIXED, curve))
    (tmp_path / "w.wtns").write_bytes(wtns_file(mixed_witness(curve=curve), curve))
    key, vkey = str(tmp_path / "k.zkey"), str(tmp_path / "v.json")
    assert main(["setup", "--unsafe", str(tmp_path / "c.r1cs"), "-o", key, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["curve"], told["constraints"], told["wires"], told["public"]) == (curve.name, 3, 7, 2)
    assert (told["domain"], told["bytes"]) == (8, (tmp_path / "k.zkey").stat().st_size)
    assert main(["zkey", "check", key]) == 0
    assert main(["zkey", "export-vk", key, "-o", vkey]) == 0
    assert main(prove_arguments(tmp_path, "--check-witness", str(tmp_path / "c.r1cs"))) == 0
    capsys.readouterr()
    documents = ["--vkey", vkey, "--proof", str(tmp_path / "p.json"), "--public", str(tmp_path / "s.json")]
    assert main(["verify", *documents, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ok"] is True
    key_read = vkey_from_json((tmp_path / "v.json").read_bytes())
    public = public_from_json((tmp_path / "s.json").read_bytes())
    assert public == mixed_witness(curve=curve)[1:3]
    assert verify(key_read, public, proof_from_json((tmp_path / "p.json").read_bytes()))


# --- setup ------------------------------------------------------------------------------------------------------


def test_setup_wants_to_hear_that_it_is_unsafe(files: Path, capsys: Capture) -> None:
    assert main(["setup", str(files / "c.r1cs"), "-o", str(files / "k.zkey")]) == 64
    assert "add --unsafe" in sentence(capsys)
    assert not (files / "k.zkey").exists()


def test_setup_says_in_the_key_and_aloud_what_it_is(files: Path, capsys: Capture) -> None:
    assert main(["setup", "--unsafe", str(files / "c.r1cs"), "-o", str(files / "k.zkey")]) == 0
    assert "UNSAFE, for tests only" in capsys.readouterr().out
    assert main(["zkey", "info", str(files / "k.zkey"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["contributions"], told["unsafe"]) == ([UNSAFE_NAME], True)


def test_two_setups_of_one_circuit_have_nothing_in_common(files: Path) -> None:
    for name in ("one", "two"):
        assert main(["setup", "--unsafe", str(files / "c.r1cs"), "-o", str(files / name)]) == 0
    one, two = ((files / name).read_bytes() for name in ("one", "two"))
    assert len(one) == len(two)
    assert one != two


@pytest.mark.parametrize(
    ("octets", "code", "part"),
    [
        (b"", 2, "c.r1cs: header: the file has 0 bytes"),
        (r1cs_file(MIXED, BN254)[:-9], 2, "c.r1cs: section header 3 of 3: "),
        (
            r1cs_of(BN254, 2, 1, 1, b"\xff" * 12),
            2,
            "section 2 (constraints), A of constraint 0: claims 4294967295 terms",
        ),
        (r1cs_of(BN254, 2, 1, 1, bytes(13)), 2, "section 2 (constraints): 1 bytes are left over"),
        (r1cs_of(BN254, 2, 1, 9, bytes(12)), 2, "section 2 (constraints): has 12 bytes, too few for 9 constraints"),
        (r1cs_file(MIXED, BN254).replace(b"r1cs", b"r1cz", 1), 2, "c.r1cs: magic: "),
        (r1cs_file(Circuit(1, 0, []), BN254), 3, "0 constraints and 0 public signals are too few"),
    ],
    ids=["empty", "cut off", "absurd count", "left over", "too few bytes", "magic", "no constraints"],
)
def test_setup_names_what_is_wrong(tmp_path: Path, capsys: Capture, octets: bytes, code: int, part: str) -> None:
    (tmp_path / "c.r1cs").write_bytes(octets)
    assert main(["setup", "--unsafe", str(tmp_path / "c.r1cs"), "-o", str(tmp_path / "k.zkey")]) == code
    assert part in sentence(capsys)
    assert [path.name for path in tmp_path.iterdir()] == ["c.r1cs"]


def test_a_number_of_wires_is_not_believed_without_room_for_them(tmp_path: Path, capsys: Capture) -> None:
    """2^28 wires would take 24 GB before the first constraint is read."""
    data = r1cs_file(MIXED, BN254)
    at = data.index(BN254.r.to_bytes(32, "little")) + 32
    (tmp_path / "c.r1cs").write_bytes(data[:at] + struct.pack("<I", 1 << 28) + data[at + 4 :])
    assert main(["setup", "--unsafe", str(tmp_path / "c.r1cs"), "-o", str(tmp_path / "k.zkey")]) == 2
    assert "section 3 (labels of the wires): has 56 bytes, but 268435456 wires" in sentence(capsys)


def test_setup_writes_only_where_it_can(files: Path, capsys: Capture) -> None:
    assert main(["setup", "--unsafe", str(files / "c.r1cs"), "-o", str(files / "no" / "k.zkey")]) == 64
    assert "does not exist" in sentence(capsys)
    assert main(["setup", "--unsafe", str(files / "c.r1cs"), "-o", str(files)]) == 64
    assert "cannot be written" in sentence(capsys)
    assert sorted(path.name for path in files.iterdir()) == ["c.r1cs", "w.wtns"]


async def test_a_hub_refuses_what_setup_made_unless_told_otherwise(files: Path) -> None:
    assert main(["setup", "--unsafe", str(files / "c.r1cs"), "-o", str(files / "ab12")]) == 0
    refused = await Verifier().inspect_circuit(files / "ab12")
    assert isinstance(refused, FileProblem)
    assert (refused.code, "start the hub with --allow-unsafe" in refused.detail) == (3, True)
    taken = await Verifier(allow_unsafe=True).inspect_circuit(files / "ab12")
    assert not isinstance(taken, FileProblem)
    assert (taken.n_vars, taken.contributions) == (7, 1)


# --- zkey -------------------------------------------------------------------------------------------------------


def test_what_there_is_to_say_about_a_key(capsys: Capture) -> None:
    assert main(["zkey", "info", str(circuits.ZKEY)]) == 0
    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert (lines["curve"], lines["public"], lines["domain"], lines["unsafe"]) == ("bn128", "2", "2048", "False")
    assert main(["zkey", "info", str(circuits.ZKEY), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["wires"], told["sha256"]) == (1948, lines["sha256"])


@pytest.mark.parametrize("action", ["info", "check"])
def test_a_key_that_is_no_key(tmp_path: Path, capsys: Capture, action: str) -> None:
    (tmp_path / "k.zkey").write_bytes(circuits.ZKEY.read_bytes()[:5000])
    assert main(["zkey", action, str(tmp_path / "k.zkey")]) == 2
    assert "k.zkey: section header " in sentence(capsys)
    assert main(["zkey", action, str(tmp_path / "absent.zkey")]) == 2
    assert "absent.zkey: cannot be opened" in sentence(capsys)


def test_a_point_off_its_curve_is_found_by_check_alone(tmp_path: Path, capsys: Capture) -> None:
    data = bytearray(setup(MIXED).file())
    data[data.index(setup(MIXED).payloads[9]) + 3 * 64] ^= 1
    (tmp_path / "k.zkey").write_bytes(data)
    assert main(["zkey", "info", str(tmp_path / "k.zkey")]) == 0
    capsys.readouterr()
    assert main(["zkey", "check", str(tmp_path / "k.zkey")]) == 2
    assert "section 9 (H points): point 3 does not lie on the curve" in sentence(capsys)
    assert main(["zkey", "check", str(circuits.ZKEY), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["unsafe"] is False


def test_a_verification_key_is_exported_or_nothing_is_written(tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "v.json"
    assert main(["zkey", "export-vk", str(circuits.ZKEY), "-o", str(out)]) == 0
    assert out.read_bytes() == circuits.VERIFICATION_KEY.read_bytes()
    data = bytearray(setup(MIXED).file())
    data[data.index(setup(MIXED).payloads[3])] ^= 1
    (tmp_path / "k.zkey").write_bytes(data)
    assert main(["zkey", "export-vk", str(tmp_path / "k.zkey"), "-o", str(tmp_path / "none.json")]) == 2
    assert "IC[0]: the point does not lie on the curve" in sentence(capsys)
    assert main(["zkey", "export-vk", str(circuits.ZKEY), "-o", str(tmp_path / "no" / "v.json")]) == 64
    assert "cannot be written" in sentence(capsys)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["k.zkey", "v.json"]


# --- prove --check-witness --------------------------------------------------------------------------------------


def test_the_violated_constraint_is_named_before_anything_is_computed(files: Path, capsys: Capture) -> None:
    values = mixed_witness()
    values[6] = (values[6] + 1) % BN254.r
    (files / "k.zkey").write_bytes(setup(MIXED).file())
    (files / "w.wtns").unlink()
    (files / "w.wtns").write_bytes(wtns_file(values, BN254))
    assert main(prove_arguments(files, "--check-witness", str(files / "c.r1cs"))) == 4
    said = sentence(capsys)
    assert "constraint 2 of 3, counted from 0, is violated; nothing was proved" in said
    assert "w.wtns" in said
    assert "c.r1cs" in said
    assert not (files / "p.json").exists()


@pytest.mark.parametrize(
    ("octets", "code", "part"),
    [
        (r1cs_file(MULTIPLY, BN254), 3, "number of wires: the circuit has 4, the witness 7 values"),
        (r1cs_file(MIXED, BLS12_381), 3, "prime: the circuit is of BLS12-381"),
        (r1cs_file(MIXED, BN254)[:100], 2, "section header 1 of 3"),
    ],
    ids=["another circuit", "another curve", "cut off"],
)
def test_constraints_that_do_not_belong(files: Path, capsys: Capture, octets: bytes, code: int, part: str) -> None:
    (files / "k.zkey").write_bytes(setup(MIXED).file())
    (files / "other.r1cs").write_bytes(octets)
    assert main(prove_arguments(files, "--check-witness", str(files / "other.r1cs"))) == code
    said = sentence(capsys)
    assert part in said
    assert "other.r1cs" in said
    assert not (files / "p.json").exists()
