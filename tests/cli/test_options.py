"""What is read without argparse is what argparse reads; everything else is left to it."""

import contextlib
from argparse import Namespace
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.main import COMMANDS, load
from cli.options import read
from cli.parser import parser_for

PROVE = ["prove", "--zkey", "k", "--wtns", "w", "--proof", "p", "--public", "u"]
VALUES = ("x", "1", "a b", "", "é", "-", "-1", "--json", "--", "--zkey", "/dev/null", "host=1", "@f")
OPTIONS = (
    "--zkey",
    "--wtns",
    "--proof",
    "--public",
    "--check-witness",
    "--device",
    "--max-vram",
    "--json",
    "--jso",
    "-j",
)


def by_argparse(arguments: Sequence[str]) -> Namespace | None:
    """What argparse reads, or None where it ends the program."""
    with contextlib.suppress(SystemExit):
        return parser_for({arguments[0]: load(arguments[0])}).parse_args(arguments)
    return None


def agree(arguments: Sequence[str]) -> bool:
    """See that the plain reader says the same, or nothing; whether it said something."""
    plain = read(load(arguments[0]), arguments)
    if plain is not None:
        found = by_argparse(arguments)
        assert found is not None, arguments
        assert vars(plain) == vars(found)
    return plain is not None


@given(words=st.lists(st.sampled_from((*OPTIONS, *VALUES)), max_size=8), required=st.booleans())
def test_it_agrees_with_argparse_about_every_line(words: list[str], *, required: bool) -> None:
    agree([*(PROVE if required else ["prove"]), *words])


@pytest.mark.parametrize(
    "more",
    [
        [],
        ["--json"],
        ["--device", "cuda:0", "--max-vram", "20G"],
        ["--check-witness", "c.r1cs", "--json"],
        ["--device", ""],
    ],
)
def test_a_proof_is_asked_for_without_argparse(more: list[str]) -> None:
    assert agree([*PROVE, *more])


@pytest.mark.parametrize("more", [["--help"], ["--zkey", "other"], ["--device=host"], ["--device", "-1"], ["--nosuch"]])
def test_what_is_not_plain_is_left_to_argparse(more: list[str]) -> None:
    assert not agree([*PROVE, *more])


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_read_alike(name: str) -> None:
    for words in ([], ["x"], ["--json"], ["--hub", "http://127.0.0.1:1"], ["--", "x"], ["demo"]):
        agree([name, *words])
