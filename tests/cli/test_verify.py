import json
from pathlib import Path

import pytest

from cli.main import main
from kernels.reference.groth16 import prove
from prover.formats.plain import plain_key
from prover.formats.snarkjson import Proof, proof_to_json, public_to_json, vkey_from_zkey, vkey_to_json
from prover.formats.zkey import ZKey
from tests.prover.toy import MIXED, mixed_witness, setup


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("verify")
    (made / "k.zkey").write_bytes(setup(MIXED).file())
    witness = mixed_witness()
    with ZKey.open(made / "k.zkey") as key:
        (made / "vkey.json").write_text(vkey_to_json(vkey_from_zkey(key)))
        (made / "proof.json").write_text(proof_to_json(Proof(*prove(plain_key(key), witness, 5, 6))))
    (made / "public.json").write_text(public_to_json(witness[1:3]))
    return made


def arguments(folder: Path, **changed: Path) -> list[str]:
    files = {name: changed.get(name, folder / f"{name}.json") for name in ("vkey", "proof", "public")}
    return ["verify", *(part for name, path in files.items() for part in (f"--{name}", str(path)))]


def test_a_proof_that_holds(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments(folder)) == 0
    said = capsys.readouterr()
    assert said.out.startswith("the proof verifies")
    assert said.err == ""


def test_the_verdict_as_json(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*arguments(folder), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["ok"], said["detail"]) == (True, None)
    (tmp_path / "public.json").write_text('["1", "2"]')
    assert main([*arguments(folder, public=tmp_path / "public.json"), "--json"]) == 4
    said = json.loads(capsys.readouterr().out)
    assert (said["ok"], said["detail"]) == (False, "the pairing equation does not hold")


def sentence(capsys: pytest.CaptureFixture[str]) -> str:
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = said.err.strip().splitlines()
    return line


def test_other_public_signals_end_with_4(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "public.json").write_text('["1", "2"]')
    assert main(arguments(folder, public=tmp_path / "public.json")) == 4
    assert "the pairing equation does not hold" in sentence(capsys)


def test_another_number_of_public_signals_ends_with_3(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "public.json").write_text('["1"]')
    assert main(arguments(folder, public=tmp_path / "public.json")) == 3
    said = sentence(capsys)
    assert "number of public signals: there are 1, and the verification key is for 2" in said


@pytest.mark.parametrize("name", ["vkey", "proof", "public"])
@pytest.mark.parametrize("text", ["", "{", '{"pi_a": 1, "IC": []}', "\x00\xff", None])
def test_what_cannot_be_read_ends_with_2_and_is_named(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str | None
) -> None:
    path = tmp_path / "wrong.json"
    if text is not None:
        path.write_text(text, "latin-1")
    assert main(arguments(folder, **{name: path})) == 2
    assert f"{path}: " in sentence(capsys)
