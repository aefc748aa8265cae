from pathlib import Path

import pytest

from kernels.curves import CURVES, Curve
from kernels.generate import field_text, made_from_templates, main, params_path, params_text


@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.ident)
def test_generated_parameters_are_committed(curve: Curve) -> None:
    assert params_path(curve).read_text(encoding="ascii") == params_text(curve), "run: make generate"


@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.ident)
def test_what_templates_make_is_committed(curve: Curve) -> None:
    for path, text in made_from_templates(curve).items():
        assert path.read_text(encoding="ascii") == text, f"{path}: run: make generate"


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
    monkeypatch.setattr("kernels.generate.ROOT", tmp_path)
    main()
    expected = sorted(f"{curve.ident}.cuh" for curve in CURVES)
    for folder in ("params", "curve"):
        assert sorted(path.name for path in (tmp_path / folder).iterdir()) == expected
    assert len(list((tmp_path / "entry").iterdir())) == 4 * len(CURVES)
