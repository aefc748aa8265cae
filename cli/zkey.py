"""``provewire zkey``: what a proving key is, whether its points are points, and its verification key."""

import argparse
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prover.formats.zkey import ZKey

HELP = "look into a proving key: info, check, export-vk"

LOGS = False
"""As for ``prove``."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    actions = parser.add_subparsers(title="actions", dest="action", metavar="ACTION", required=True)
    for name, text in (
        ("info", "curve, counts, contributions"),
        (
            "check",
            "every count, range and point, and the subgroups of the fixed points; exit code 2 names what is wrong",
        ),
        ("export-vk", "write the verification key as snarkjs does"),
    ):
        action = actions.add_parser(name, help=text, description=text, allow_abbrev=False)
        action.add_argument("zkey", type=Path, metavar="ZKEY", help="proving key, as snarkjs writes it")
        if name == "export-vk":
            action.add_argument("-o", "--out", required=True, type=Path, metavar="F", help="where it goes (JSON)")
        else:
            action.add_argument("--json", action="store_true", help="print one JSON line")


def run(args: argparse.Namespace) -> int:
    """Do what is asked; opening a key checks its counts, sizes and ranges."""
    from prover.formats.zkey import ZKey  # noqa: PLC0415 - see cli.main

    with ZKey.open(args.zkey) as key:
        if args.action == "export-vk":
            return _export(key, args.out)
        if args.action == "check":
            from prover.check import check_points  # noqa: PLC0415

            check_points(key, len(os.sched_getaffinity(0)))
        facts = _facts(key)
    if args.json:
        print(json.dumps(facts))
    elif args.action == "check":
        print(f"{args.zkey}: every count, range and point is as it must be")
    else:
        for name, value in facts.items():
            print(f"{name:<14} {value if not isinstance(value, list) else ', '.join(map(str, value)) or 'none'}")
    return 0


def _facts(key: "ZKey") -> dict[str, object]:
    """What there is to say about a key."""
    return {
        "zkey": str(key.path),
        "sha256": key.sha256(),
        "curve": key.curve.name,
        "wires": key.n_vars,
        "public": key.n_public,
        "domain": key.domain_size,
        "coefficients": key.n_coefficients,
        "contributions": key.contributors(),
        "unsafe": key.is_unsafe,
    }


def _export(key: "ZKey", out: Path) -> int:
    """Write the verification key."""
    from cli.prove import write_whole  # noqa: PLC0415 - see cli.main
    from prover.formats.snarkjson import vkey_from_zkey, vkey_to_json  # noqa: PLC0415

    write_whole([(out, vkey_to_json(vkey_from_zkey(key)))])
    return 0
