from pathlib import Path

import pytest

from kernels.curves import CURVES, Curve
from kernels.generate import field_text, main, params_path, params_text


@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.ident)
def test_generated_parameters_are_committed(curve: Curve) -> None:
    assert params_path(curve).read_text(encoding="ascii") == params_text(curve), "run: make generate"


def test_the_derivation_stands_beside_each_constant() -> None:
    text = field_text("Seven", 7, 8)
    assert "// p = 7\n" in text
    assert "// -1 / p mod 2^64\n" in text
    # 2^64 = 2 and 2^128 = 4 modulo 7; 7 * 0x4924924924924925 = -1 modulo 2^64 holds for its negative.
    assert "// R mod p, R = 2^64\n" in text
    assert "{0x0000000000000002}" in text
    assert "{0x0000000000000004}" in text
    inverse = int(text.split("negative_inverse() { return ")[1].split(";")[0], 16)
    assert inverse * 7 % 2**64 == 2**64 - 1


def test_main_writes_every_curve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernels.generate.PARAMS", tmp_path / "params")
    main()
    assert sorted(path.name for path in (tmp_path / "params").iterdir()) == sorted(
        f"{curve.ident}.cuh" for curve in CURVES
    )
