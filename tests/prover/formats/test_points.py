from hypothesis import given
from hypothesis import strategies as st

from kernels.curves import BN254
from prover.formats.points import g1_from_bytes, g1_to_bytes, g2_from_bytes, g2_to_bytes

coordinates = st.integers(0, BN254.q - 1)
pairs = st.tuples(coordinates, coordinates)


@given(g1=st.none() | pairs, g2=st.none() | st.tuples(pairs, pairs))
def test_points_come_back_from_their_bytes(
    g1: tuple[int, int] | None, g2: tuple[tuple[int, int], tuple[int, int]] | None
) -> None:
    # (0, 0) is on neither curve, so that its bytes are free to mean infinity.
    assert g1_from_bytes(BN254, g1_to_bytes(BN254, g1)) == (None if g1 == (0, 0) else g1)
    assert g2_from_bytes(BN254, g2_to_bytes(BN254, g2)) == (None if g2 == ((0, 0), (0, 0)) else g2)


def test_bytes_are_little_endian_montgomery_form() -> None:
    radix = (1 << 256) % BN254.q
    assert g1_to_bytes(BN254, (1, 2)) == radix.to_bytes(32, "little") + (2 * radix % BN254.q).to_bytes(32, "little")
    assert g2_to_bytes(BN254, ((1, 0), (0, 0))) == radix.to_bytes(32, "little") + bytes(96)
    assert g2_to_bytes(BN254, None) == bytes(128)
