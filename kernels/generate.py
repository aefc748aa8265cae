"""Turn the curve parameters of ``kernels/curves.py`` into what the compilers read, for each curve.

The limb constants go to ``kernels/field/params``; the types and the entries, the same text for every curve, are made
from the templates in ``kernels/entry/templates``.

``make generate`` runs this and must leave no difference: the files are committed, so that a compiler is all a
node needs, and a test compares them with what this module says now.
"""

from pathlib import Path
from typing import Final

from kernels import ROOT
from kernels.curves import CURVES, Curve

PARAMS: Final = ROOT / "field" / "params"
TEMPLATES: Final = ROOT / "entry" / "templates"

_WORD_BITS: Final = 64
_WORD_MASK: Final = (1 << _WORD_BITS) - 1

_HEAD: Final = """\
// DO NOT EDIT. Made from kernels/curves.py by kernels/generate.py (make generate).
// clang-format off
//
// The prime fields of {ident}, in 64-bit words, lowest first. R is the Montgomery radix of a field.
#pragma once

#include "core/platform.cuh"

namespace provewire::{ident} {{
"""

_TAIL: Final = """
}}  // namespace provewire::{ident}
"""

_FIELD: Final = """
// p = {modulus}
struct {name} {{
  static constexpr u32 bytes = {size};
  static constexpr u32 bits = {bits};
{constants}
  // -1 / p mod 2^64
  static HD constexpr u64 negative_inverse() {{ return {negative_inverse}; }}
}};
"""

_CONSTANT: Final = """
  // {derivation}
  static HD constexpr u64 {name}(u32 i) {{
    const u64 words[] = {{{words}}};
    return words[i];
  }}
"""


def _word(value: int) -> str:
    """Return a 64-bit word as a C++ literal."""
    return f"0x{value:016x}"


def _constant(name: str, derivation: str, value: int, size: int) -> str:
    """Return the function that gives the words of a constant."""
    words = [value >> shift & _WORD_MASK for shift in range(0, 8 * size, _WORD_BITS)]
    lines = ",\n                         ".join(
        ", ".join(_word(word) for word in words[i : i + 4]) for i in range(0, len(words), 4)
    )
    return _CONSTANT.format(name=name, derivation=derivation, words=lines)


def field_text(name: str, modulus: int, size: int) -> str:
    """Return the parameters of one prime field as a C++ struct.

    Args:
        name: the struct's name.
        modulus: the field's odd prime.
        size: bytes of an element, a multiple of 8.
    """
    radix = 1 << 8 * size
    constants = "".join(
        _constant(constant, derivation, value, size)
        for constant, derivation, value in (
            ("modulus", "p", modulus),
            ("half", "(p - 1) / 2", (modulus - 1) // 2),
            ("radix", f"R mod p, R = 2^{8 * size}", radix % modulus),
            ("radix_squared", "R^2 mod p", radix * radix % modulus),
        )
    )
    return _FIELD.format(
        name=name,
        modulus=modulus,
        size=size,
        bits=modulus.bit_length(),
        constants=constants,
        negative_inverse=_word(-pow(modulus, -1, 1 << _WORD_BITS) % (1 << _WORD_BITS)),
    )


def params_text(curve: Curve) -> str:
    """Return the whole text of a curve's parameter file."""
    return (
        _HEAD.format(ident=curve.ident)
        + field_text("FqParams", curve.q, curve.n8q)
        + field_text("FrParams", curve.r, curve.n8r)
        + _TAIL.format(ident=curve.ident)
    )


_TEMPLATE_HEAD: Final = """\
// DO NOT EDIT. Made from kernels/entry/templates/{template} by kernels/generate.py (make generate).
// clang-format off
"""


def made_from_templates(curve: Curve) -> dict[Path, str]:
    """Return the files that a curve gets from the templates, with their text."""
    made = {}
    loop = abs(6 * curve.parameter + 2 if curve.family == "bn" else curve.parameter)
    words = {
        "ident": curve.ident,
        "title": curve.title,
        "xi": str(curve.fq2_xi[0]),
        "is_bn": str(curve.family == "bn").lower(),
        "is_negative": str(curve.parameter < 0).lower(),
        "loop_low": str(loop & _WORD_MASK),
        "loop_high": str(loop >> _WORD_BITS),
    }
    for template in sorted(TEMPLATES.iterdir()):
        text = template.read_text(encoding="ascii")
        for word, value in words.items():
            text = text.replace(f"@{word}@", value)
        name = template.name.removesuffix(".in")
        own = {"curve.cuh": f"curve/{curve.ident}.cuh", "native.cpp": f"native/{curve.ident}.cpp"}
        path = ROOT / own.get(name, f"entry/{curve.ident}_{name}")
        made[path] = _TEMPLATE_HEAD.format(template=template.name) + text
    return made


def params_path(curve: Curve) -> Path:
    """Return where a curve's parameter file lies."""
    return PARAMS / f"{curve.ident}.cuh"


def main() -> None:
    """Write every generated file."""
    for curve in CURVES:
        for path, text in {params_path(curve): params_text(curve), **made_from_templates(curve)}.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="ascii")


if __name__ == "__main__":
    main()
