"""``provewire agent``: the daemon of a node."""

import argparse

DAEMON = True
"""Its log never holds it up."""
HELP = "run this node's agent: dial out to the hub, push what the node does, have proofs made"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options. Each has a variable ``PROVEWIRE_...`` of the same name."""
    parser.add_argument("--hub", metavar="URL", help="the hub's address; default: as enrolled, or as the token says")
    parser.add_argument("--data-dir", metavar="D", help="what the agent keeps (PROVEWIRE_DATA_DIR)")
    parser.add_argument("--token-file", metavar="F", help="file with the one-time enrolment token")
    parser.add_argument("--name", metavar="N", help="how the hub shows this node; default: the host's name")
    parser.add_argument("--device", metavar="DEV", help="auto, host or cuda:N")
    parser.add_argument("--observe", action="store_true", help="telemetry only: no worker, no job")
    parser.add_argument("--local", metavar="ADDR", help="loopback address of the local view, or off (127.0.0.1:8471)")
    parser.add_argument(
        "--cuzk", metavar="ADDR", help="loopback address of a cuzk-daemon's status, or off (127.0.0.1:9821)"
    )
    parser.add_argument("--cuzk-grpc", metavar="ADDR", help="its gRPC, HOST:PORT or unix:///PATH, or off")
    parser.add_argument("--log-file", action="append", metavar="PATH", help="a log to ship, by its path; several times")
    parser.add_argument("--log-unit", action="append", metavar="UNIT", help="a journald unit to ship; several times")
    parser.add_argument("--log-ship", metavar="LEVEL", help="ship records of at least debug, info, warning or error")
    parser.add_argument(
        "--ssh-address", metavar="ADDR", help="how others reach this node's sshd, HOST:PORT, HOST or :PORT; off: unsaid"
    )
    parser.add_argument("--ssh-user", metavar="USER", help="whom to log in as there (root)")
    parser.add_argument("--ca", metavar="F", help="certificates to trust beside the system's, PEM")
    parser.add_argument(
        "--allow-key-install", action="store_true", help="the hub may let its SSH key in here, over the session"
    )
    parser.add_argument("--insecure", action="store_true", help="allow a hub off this machine without TLS")


def run(args: argparse.Namespace) -> int:
    """Run until told to stop."""
    import os  # noqa: PLC0415 - each side is imported in its own subcommand only

    from agent import config  # noqa: PLC0415 - same
    from agent.agent import run as run_agent  # noqa: PLC0415 - same

    settings = config.load(
        os.environ,
        hub=args.hub,
        data_dir=args.data_dir,
        token_file=args.token_file,
        name=args.name,
        device=args.device,
        observe=args.observe,
        local=args.local,
        cuzk=args.cuzk,
        cuzk_grpc=args.cuzk_grpc,
        log_file=args.log_file,
        log_unit=args.log_unit,
        log_ship=args.log_ship,
        ssh_address=args.ssh_address,
        ssh_user=args.ssh_user,
        ca=args.ca,
        insecure=args.insecure,
        allow_key_install=args.allow_key_install,
    )
    return run_agent(settings)
