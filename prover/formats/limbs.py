"""Checks over many little-endian field elements or indices at once, without a copy and without numpy.

Where the curve's native functions have been built they do it. Elsewhere a view of the file is cast to 32-bit words and
sliced with a stride, so that ``max`` walks one column of all records in C: about 25 ns each. Words are read in the
machine's order; the prover runs on little-endian machines only, as the files' bytes are the kernels' limbs.
"""

from typing import Final

from prover.native import Native

WORD_BYTES: Final = 4


def column(records: memoryview, record_words: int, word: int) -> memoryview:
    """Return one 32-bit word of every record, as a strided view.

    Args:
        records: whole records, one after the other; need not be aligned.
        record_words: words of one record.
        word: which word, from 0.
    """
    return records.cast("B").cast("I")[word::record_words]


def index_out_of_range(
    records: memoryview, record_words: int, word: int, limit: int, functions: Native | None = None
) -> int | None:
    """Return the number of a record whose word is not below ``limit``, or None when all are."""
    if functions is not None and records.nbytes:
        place = word * WORD_BYTES
        return functions.first_not_below(records, record_words * WORD_BYTES, place, WORD_BYTES, limit)
    words = column(records, record_words, word)
    if len(words) == 0 or max(words) < limit:
        return None
    return next(number for number, value in enumerate(words) if value >= limit)


def element_out_of_range(
    records: memoryview,
    record_words: int,
    first_word: int,
    element_words: int,
    modulus: int,
    functions: Native | None = None,
) -> int | None:
    """Return the number of the first record whose field element is not below ``modulus``, or None.

    Args:
        records: whole records, one after the other.
        record_words: words of one record.
        first_word: where in the record the element starts.
        element_words: words of the element.
        modulus: the exclusive upper bound; its top word must lie in the element's top word.
        functions: a curve's native functions, where they have been built.
    """
    if functions is not None and records.nbytes:
        place, size = first_word * WORD_BYTES, element_words * WORD_BYTES
        return functions.first_not_below(records, record_words * WORD_BYTES, place, size, modulus)
    top_shift = 32 * (element_words - 1)
    modulus_top = modulus >> top_shift
    tops = column(records, record_words, first_word + element_words - 1)
    # Almost always decided here: one element in 2^30 shares the modulus's top word.
    if len(tops) == 0 or max(tops) < modulus_top:
        return None
    octets = records.cast("B")
    for number, top in enumerate(tops):
        if top < modulus_top:
            continue
        start = (number * record_words + first_word) * WORD_BYTES
        if int.from_bytes(octets[start : start + element_words * WORD_BYTES], "little") >= modulus:
            return number
    return None
