"""``provewire alerts``: what is wrong and was; acknowledge and silence; rules, channels, a test notice."""

import argparse
import sys
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from cli import client
from cli.errors import EXIT_INTERNAL, EXIT_OK, UsageError

HELP = "show alerts, look after them, silence them; rules, and channels of notices"
BASE = "/api/v1/alerts"
ANSWER_BYTES_MAX = 16 * 1024**2
TEST_S = 90.0
URL_CHARS_MAX = 2048
UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
MARKS = {"critical": "X", "warning": "!", "info": "-"}
"""Of a severity: a colour alone is none to many."""
SEVERITIES = tuple(reversed(MARKS))


def seconds(text: str) -> int:
    """``90``, ``15m``, ``2h``, ``7d`` in seconds."""
    number, unit = (text[:-1], text[-1]) if text[-1:] in UNITS_S else (text, "s")
    if not number.isdecimal() or not int(number):
        raise argparse.ArgumentTypeError(f"{text!r} is no time; write 90s, 15m, 2h or 7d")
    return int(number) * UNITS_S[unit]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions and their options."""
    parser.description = f"{HELP}. X: critical, !: warning, -: info."
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--json", action="store_true", help="as the hub has it, for programs")
    client.add_arguments(common)
    actions = parser.add_subparsers(title="actions", dest="action", metavar="ACTION", required=True)

    def action(name: str, help_: str, *positional: str) -> argparse.ArgumentParser:
        made = actions.add_parser(name, help=help_, description=help_, parents=[common], allow_abbrev=False)
        for each in positional:
            made.add_argument(each, metavar=each.upper())
        return made

    action("list", "what fires now, the worst first")
    action("history", "alerts of all times, the newest 100")
    action("show", "one alert, and the notices about it", "id")
    ack = action("ack", "say that you look after an alert, until it ends or for a time", "id")
    ack.add_argument("--note", default="", metavar="TEXT", help="shown beside it")
    ack.add_argument("--for", dest="for_s", type=seconds, metavar="T", help="90s, 15m, 2h, 7d; then you are reminded")
    action("unack", "take that back", "id")
    silence = action("silence", "no notices for a time, of what is named; what is bad at the end is told then")
    silence.add_argument("--for", dest="for_s", type=seconds, metavar="T", required=True, help="90s, 15m, 2h, 7d")
    silence.add_argument("--reason", required=True, metavar="TEXT", help="why")
    silence.add_argument("--rule", default="", metavar="R", help="of this rule only")
    silence.add_argument("--node", default="", metavar="N", help="of this node only")
    silence.add_argument("--cause", default="", metavar="C", help="of this cause only")
    action("silences", "the newest 100")
    action("unsilence", "end a silence now", "id")
    action("rules", "every rule with its thresholds and times")
    rule = action("rule", "change a rule", "rule")
    for name, help_ in (("bad", "at this and beyond it is bad"), ("clear", "back beyond this it is good")):
        rule.add_argument(f"--{name}", type=float, metavar="V", help=help_)
    rule.add_argument("--hold", dest="hold_s", type=float, metavar="S", help="seconds of bad until it fires")
    rule.add_argument("--resolve", dest="resolve_s", type=float, metavar="S", help="seconds of good until it is over")
    rule.add_argument("--severity", choices=SEVERITIES, help="how much it matters")
    rule.add_argument("--enabled", choices=("1", "0"), help="0 switches it off")
    rule.add_argument("--reset", action="store_true", help="as it came")
    action("channels", "where notices go, and whether they arrive")
    add = action("add-channel", "have notices sent somewhere; the Apprise address is read from standard input", "name")
    add.add_argument("--severity", choices=SEVERITIES, default="warning", help="of alerts that matter as much or more")
    action("remove-channel", "send none there any more", "name")
    action("test", "send a test notice to a channel now; ends with 6 if it does not arrive", "name")


def run(args: argparse.Namespace) -> int:
    """Ask the hub, and print; the exit code."""
    import json  # noqa: PLC0415 - each side is imported in its own subcommand only

    from cli.incidents import plain  # noqa: PLC0415 - same

    told = _asked(client.hub_of(args), args)
    if args.json:
        print(json.dumps(told, ensure_ascii=False))
    else:
        print("\n".join(plain(line) for line in lines(args.action, told)))
    return EXIT_INTERNAL if args.action == "test" and told["state"] != "sent" else EXIT_OK


def _asked(hub: client.Hub, args: argparse.Namespace) -> dict[str, Any]:
    """What the hub answers."""
    name = quote(getattr(args, "id", "") or getattr(args, "name", "") or getattr(args, "rule", ""), safe="")
    reading = {
        "list": "",
        "history": "/history?limit=100",
        "show": f"/{name}",
        "silences": "/silences?limit=100",
        "rules": "/rules",
        "channels": "/channels",
    }
    if args.action in reading:
        return hub.ask("GET", BASE + reading[args.action], bytes_max=ANSWER_BYTES_MAX)
    method, path, body = _change(args, name)
    return hub.ask(method, BASE + path, body, deadline_s=TEST_S)


def _change(args: argparse.Namespace, name: str) -> tuple[str, str, dict[str, Any] | None]:
    """Method, address and body of a change."""
    plain = {
        "unack": ("DELETE", f"/{name}/ack"),
        "unsilence": ("DELETE", f"/silences/{name}"),
        "remove-channel": ("DELETE", f"/channels/{name}"),
        "test": ("POST", f"/channels/{name}/test"),
    }
    if args.action in plain:
        return *plain[args.action], None
    if args.action == "rule":
        return _rule_change(args, name)
    if args.action == "ack":
        return "POST", f"/{name}/ack", {"note": args.note, **({"for_s": args.for_s} if args.for_s else {})}
    if args.action == "silence":
        which = {key: value for key in ("rule", "node", "cause") if (value := getattr(args, key))}
        return "POST", "/silences", {"for_s": args.for_s, "reason": args.reason, **which}
    return "POST", "/channels", {"name": args.name, "url": _address(), "severity": args.severity}


def _rule_change(args: argparse.Namespace, name: str) -> tuple[str, str, dict[str, Any] | None]:
    if args.reset:
        return "DELETE", f"/rules/{name}", None
    names = ("bad", "clear", "hold_s", "resolve_s", "severity")
    change = {key: value for key in names if (value := getattr(args, key)) is not None}
    return "PATCH", f"/rules/{name}", change | ({"enabled": args.enabled == "1"} if args.enabled else {})


def _address() -> str:
    """Never of the command line, where every user of the machine could read it."""
    import getpass  # noqa: PLC0415 - only here

    if sys.stdin.isatty():
        text = getpass.getpass("the channel's Apprise address (not shown): ")
    else:
        text = sys.stdin.read(URL_CHARS_MAX + 1)
    if not text.strip() or len(text.strip()) > URL_CHARS_MAX:
        raise UsageError(
            "give the channel's Apprise address on standard input: one line, for example ntfys://ntfy.sh/x"
        )
    return text.strip()


# --- for people


def lines(action: str, told: dict[str, Any]) -> list[str]:
    """An answer, to be read."""
    many: dict[str, tuple[str, Callable[[dict[str, Any]], list[str]], str]] = {
        "list": ("alerts", _alert, "nothing fires"),
        "history": ("alerts", _alert, "no alert has fired yet"),
        "silences": ("silences", _silence, "nothing was silenced"),
        "rules": ("rules", _rule, "no rules"),
    }
    if action in many:
        name, show, nothing = many[action]
        return [line for one in told[name] for line in show(one)] or [nothing]
    if action == "show":
        return [*_alert(told["alert"]), *(f"    {line}" for one in told["notices"] for line in _notice(one))]
    single: dict[str, Callable[[dict[str, Any]], list[str]]] = {
        "ack": _alert,
        "unack": _alert,
        "silence": _silence,
        "unsilence": _silence,
        "rule": _rule,
        "channels": _channels,
        "add-channel": _channel,
        "remove-channel": lambda _: ["removed"],
        "test": _notice,
    }
    return single[action](told)


def _alert(alert: dict[str, Any]) -> list[str]:
    from cli.incidents import moment  # noqa: PLC0415 - see run

    until = "" if alert["ended_at_ms"] is None else f" until {moment(alert['ended_at_ms'])}"
    flaps = ", comes and goes" if alert["flapping"] else ""
    head = f"{MARKS[alert['severity']]} {alert['headline']}: {alert['state']} since {moment(alert['fired_at_ms'])}"
    found = [f"{head}{until}{flaps}  [{alert['id']}]"]
    if alert["detail"]:
        found.append(f"    {alert['detail']}")
    if alert["count_max"] > 1:
        found.append(f"    {', '.join(alert['subjects'])}")
    if alert["acked_by"]:
        note = f": {alert['ack_note']}" if alert["ack_note"] else ""
        found.append(f"    {alert['acked_by']} looks after it{note}")
    if alert["state"] == "firing":
        found.append(f"    {alert['remedy']}")
    return found


def _notice(notice: dict[str, Any]) -> list[str]:
    from cli.incidents import moment  # noqa: PLC0415 - see run

    why = f": {notice['error']}" if notice["error"] else ""
    tries = f", {notice['tries']} tries" if notice["tries"] > 1 else ""
    at = moment(notice["created_at_ms"])
    return [f"{notice['kind']} to {notice['channel_name']}, {at}: {notice['state']}{tries}{why}"]


def _silence(one: dict[str, Any]) -> list[str]:
    from cli.incidents import moment  # noqa: PLC0415 - see run

    what = ", ".join(filter(None, (one["rule"], one["node_name"] or one["node"], one["cause"]))) or "everything"
    return [f"{what} until {moment(one['until_ms'])}, by {one['created_by']}: {one['reason']}  [{one['id']}]"]


def _rule(rule: dict[str, Any]) -> list[str]:
    limits = "" if rule["bad"] is None else f"bad {rule['bad']:g}, clear {rule['clear']:g} {rule['unit']}; "
    state = rule["severity"] if rule["enabled"] else "off"
    changed = ", changed" if rule["changed"] else ""
    times = f"hold {rule['hold_s']:g} s, resolve {rule['resolve_s']:g} s"
    return [f"{rule['rule']} ({state}{changed}): {limits}{times}", f"    {rule['about']}"]


def _channels(told: dict[str, Any]) -> list[str]:
    found = [line for one in told["channels"] for line in _channel(one)] or [
        "no channel yet: `provewire alerts add-channel NAME`"
    ]
    if told["deadman"]["configured"]:
        found.append(f"dead-man's ping: {told['deadman']['failure'] or 'answered'}")
    return found


def _channel(one: dict[str, Any]) -> list[str]:
    if not one["enabled"]:
        state = "off"
    elif one["failed_at_ms"] is not None:
        state = f"does not arrive: {one['failure']}"
    else:
        state = "never used" if one["delivered_at_ms"] is None else "arrives"
    return [f"{one['name']} ({one['shown']}, {one['severity']} and more): {state}  [{one['id']}]"]
