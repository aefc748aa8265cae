"""What `make sass` counts and judges, on texts of the assembler and the disassembler."""

import pytest

from bench.cubins import Resources, read_report
from bench.disassembly import Cost, parse
from bench.sass import COLD, FIELDS, Findings, missed, operations, warps

LISTING = """
	.section	.text.kernel,"ax",@progbits
.text.kernel:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/              @!P0 BRA `(.L_x_9) ;
.L_x_1:
        /*0020*/                   LDG.E R2, desc[UR4][R4.64] ;
        /*0030*/              @P0  BRA `(.L_x_2) ;
        /*0040*/                   IMAD.WIDE.U32.X R2, P0, R9, R16, R2, P0 ;
        /*0050*/                   IMAD.HI.U32 R2, P0, R9, R16, R2 ;
        /*0060*/              @P1  BRA `(.L_x_3) ;
        /*0070*/                   BRA.U UP0, `(.L_x_2) ;
        /*0080*/                   IADD3 R2, R2, R3, RZ ;
.L_x_2:
        /*0090*/                   CALL.REL.NOINC `($kernel$_ZN9provewire4Ext2product) ;
        /*00a0*/              @P3  BRA `(.L_x_1) ;
        /*00b0*/                   EXIT ;
.L_x_3:
        /*00c0*/                   CALL.REL.NOINC `($kernel$_ZN9provewire4Xyzztwice) ;
        /*00d0*/                   BRA `(.L_x_2) ;
.L_x_9:
        /*00e0*/                   EXIT ;
$kernel$_ZN9provewire4Ext2product:
        /*00f0*/                   IMAD.WIDE.U32 R2, P0, R9, R16, R2 ;
        /*0100*/              @P0  RET.REL.NODEC R20 `(kernel) ;
        /*0110*/                   RET.REL.NODEC R20 `(kernel) ;
$kernel$_ZN9provewire4Xyzztwice:
        /*0120*/                   IMAD.WIDE.U32 R2, P0, R9, R16, R2 ;
        /*0130*/                   RET.REL.NODEC R20 `(kernel) ;
"""


def test_the_way_round_the_hot_loop() -> None:
    """With its call of a function that every round needs, without the one for special cases, by the shorter of two."""
    kernel = parse(LISTING)["kernel"]
    assert kernel.hot_loop(COLD) == Cost(instructions=11, wide=3)
    assert kernel.hot_loop(COLD).slots == 14
    assert (kernel.count("IMAD.WIDE"), kernel.count("IMAD.HI")) == (3, 1)


def test_a_straight_piece_is_counted_without_moves() -> None:
    chain = ["LDC R1, c[0x0][0x28]", "LDG.E R2, desc[UR4][R4.64]", "IMAD.WIDE.U32 R2, P0, R9, R16, RZ", "MOV R2, R3"]
    text = ".text.{}:\n" + "".join(f"        /*{i:04x}*/   {{}} ;\n" for i in range(5))
    one = text.format("products_bn254_Fq_1", *chain, "EXIT")
    two = text.format("products_bn254_Fq_2", *chain[:3], "IADD3.X R2, R3, R4, RZ", "EXIT")
    assert operations(parse(one + two)) == {("products", "bn254_Fq"): Cost(1, 0)}


REPORT = """ptxas info    : 4 bytes gmem, 4 bytes cmem[3]
ptxas info    : Compiling entry function 'bn254_digits' for 'sm_90'
ptxas info    : Function properties for bn254_digits
    32 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 29 registers, used 0 barriers, 64 bytes smem
ptxas info    : Function properties for _ZN9provewire4Ext27product
    0 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Compiling entry function 'other' for 'sm_90'
ptxas info    : Function properties for other
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 0 barriers
"""


def test_the_assembler_s_report_with_the_functions_that_an_entry_calls() -> None:
    assert read_report(REPORT) == {
        "bn254_digits": Resources(registers=29, spill_bytes=20, frame_bytes=32, shared_bytes=64),
        "other": Resources(registers=10, spill_bytes=0, frame_bytes=0, shared_bytes=0),
    }
    with pytest.raises(ValueError, match="says nothing of the registers of other"):
        read_report(REPORT.replace("Used 10", "Uses 10"))


def found(
    *, product: int = 164, square: int = 150, registers: int = 100, spill: int = 0, halves: float = 0.1
) -> Findings:
    costs = {("products", field): Cost(product if bits < 300 else 344, 0) for field, bits in FIELDS.items()}
    costs |= {("squares", field): Cost(square if bits < 300 else 300, 0) for field, bits in FIELDS.items()}
    return Findings(
        "sm_90", costs, {"bn254_g1_accumulate": Resources(registers, spill, 0, 0)}, {}, {"bn254_powers": halves}
    )


def test_what_is_required() -> None:
    assert list(missed(found())) == []
    assert len(list(missed(found(product=166)))) == 2, "of both fields of that width"
    assert "a square of bn254_Fq takes 160" in next(missed(found(square=160)))
    assert "spills 4 bytes" in next(missed(found(spill=4)))
    assert "fewer than 8 warps" in next(missed(found(registers=300)))
    assert "halves of products one by one" in next(missed(found(halves=0.9)))


@pytest.mark.parametrize(
    ("entry", "registers", "architecture", "expected"),
    [
        ("bn254_g1_accumulate", 108, "sm_90", 16),
        ("bls12381_g2_accumulate", 242, "sm_90", 8),
        ("bn254_digits", 29, "sm_90", 64),
        ("bn254_digits", 29, "sm_120", 48),
        ("bn254_ntt_pass", 57, "sm_90", 32),
    ],
)
def test_room_by_registers(entry: str, registers: int, architecture: str, expected: int) -> None:
    assert warps(entry, Resources(registers, 0, 0, 0), architecture) == expected
