"""Proofs, public signals and keys of ours before snarkjs's eyes, and snarkjs's before ours."""

import json
import shutil
from pathlib import Path

import pytest

from cli.main import main
from prover.formats.snarkjson import vkey_from_zkey, vkey_to_json
from prover.formats.zkey import ZKey
from tests.oracle import circuits
from tests.oracle.circuits import CASES, Case, Made
from tests.oracle.steps import accepted

pytestmark = pytest.mark.skipif(
    not circuits.available(), reason="circom2 and snarkjs are missing: apt-get install nodejs npm"
)


def case_id(case: Case) -> str:
    return f"{case.name}-{case.key}{'-tau-one' if case.tau_one else ''}"


@pytest.fixture(params=CASES, ids=case_id)
def case(request: pytest.FixtureRequest) -> Case:
    found = request.param
    assert isinstance(found, Case)
    return found


@pytest.fixture
def made(case: Case) -> Made:
    return circuits.make(case)


def shape(value: object) -> object:
    """Return a document with every number replaced, to compare what is around them."""
    if isinstance(value, dict):
        return [(key, shape(item)) for key, item in value.items()]
    if isinstance(value, list):
        return [shape(item) for item in value]
    return "number" if isinstance(value, str) and value.isdigit() and value not in {"0", "1"} else value


@pytest.mark.timeout(600)  # the first time, circom and snarkjs make all that is kept afterwards
def test_snarkjs_accepts_our_proofs_and_we_write_what_it_writes(tmp_path: Path) -> None:
    folders = []
    for case in CASES:
        made = circuits.make(case)
        with ZKey.open(made.zkey) as key:
            assert (key.log2_domain, key.n_public) == (case.log2_domain, case.n_public), case_id(case)
            assert vkey_to_json(vkey_from_zkey(key)) == made.vkey.read_text("ascii"), case_id(case)
        folders.append(tmp_path / case_id(case))
        folders[-1].mkdir()
        proof, public = folders[-1] / "proof.json", folders[-1] / "public.json"
        files = ["--zkey", made.zkey, "--wtns", made.wtns, "--proof", proof, "--public", public]
        assert main(["prove", "--device", "host", *map(str, files)]) == 0
        assert public.read_bytes() == made.theirs_public.read_bytes(), case_id(case)
        ours, theirs = proof.read_text("ascii"), made.theirs_proof.read_text("ascii")
        assert shape(json.loads(ours)) == shape(json.loads(theirs)), case_id(case)
        assert ours == json.dumps(json.loads(ours), indent=1)
        assert theirs == json.dumps(json.loads(theirs), indent=1)
        shutil.copyfile(made.vkey, folders[-1] / "vkey.json")
    refused = [folder.name for folder, ok in zip(folders, accepted(folders), strict=True) if not ok]
    assert refused == []


def test_we_accept_snarkjs_proof_and_refuse_it_for_other_signals(case: Case, made: Made, tmp_path: Path) -> None:
    files = ["verify", "--vkey", str(made.vkey), "--proof", str(made.theirs_proof), "--public"]
    assert main([*files, str(made.theirs_public)]) == 0
    if case.n_public == 0 or case.tau_one:
        return  # where tau is 1 the points of most signals are at infinity, and such a key binds nobody to them
    wrong = json.loads(made.theirs_public.read_text("ascii"))
    wrong[-1] = str(int(wrong[-1]) + 1)
    (tmp_path / "public.json").write_text(json.dumps(wrong))
    assert main([*files, str(tmp_path / "public.json")]) == 4


def test_the_cases_cover_what_they_promise() -> None:
    assert {case.log2_domain for case in CASES} >= {1, 2, 3, 4, 5, 6, 8, 11}
    assert {case.key for case in CASES} == {"fresh", "contributed", "beacon", "nine"}
    assert {0, 1, 2, 3} == {case.n_public for case in CASES}


def test_a_signal_that_no_constraint_used_binds_the_proof_all_the_same(tmp_path: Path) -> None:
    """The public input `ignored_public` has a point in IC because every public wire has a row of its own."""
    made = circuits.make(next(case for case in CASES if case.name == "unused"))
    public = json.loads(made.theirs_public.read_text("ascii"))
    assert public[1] == "2"
    shutil.copyfile(made.theirs_proof, tmp_path / "proof.json")
    (tmp_path / "public.json").write_text(json.dumps([public[0], "3"]))
    shutil.copyfile(made.vkey, tmp_path / "vkey.json")
    assert accepted([tmp_path]) == [False]
    files = ["--vkey", str(made.vkey), "--proof", str(tmp_path / "proof.json")]
    assert main(["verify", *files, "--public", str(tmp_path / "public.json")]) == 4
