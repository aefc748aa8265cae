"""OpenSSH's words and what they mean: an ordered table, the particular before the general.

The texts are those of releases from 7.4 to 10, on Linux, BSD and macOS.
"""

import re

from msgspec import Struct

from hub.ssh.cause import Cause


class Rule(Struct, frozen=True):
    """A pattern in one line of stderr, and what it means."""

    cause: Cause
    pattern: re.Pattern[str]


def _rules(*pairs: tuple[Cause, str]) -> tuple[Rule, ...]:
    return tuple(Rule(cause, re.compile(pattern, re.MULTILINE)) for cause, pattern in pairs)


RULES: tuple[Rule, ...] = _rules(
    # The command line and the files on this side: nothing was sent.
    (Cause.NO_USER, r"No user exists for uid|You don't exist, go away"),
    (Cause.CONTROL_PATH_TOO_LONG, r"ControlPath too long|too long for Unix domain socket"),
    (Cause.CONTROL_PATH_UNUSABLE, r"unix_listener: cannot bind to path|muxserver_listen.*(?:bind|link)"),
    (Cause.UNSUPPORTED_OPTION, r"command-line.*Bad configuration option|Unsupported option|unknown option -- |illegal option -- "),
    (Cause.BAD_CONFIGURATION, r"Bad configuration option|terminating, \d+ bad configuration|[Nn]o argument after keyword|line \d+:? (?:Bad|Missing|Invalid|bad|missing|invalid) (?:port|number|value|time value|yes/no|argument|key types|SSH2 \w+)|keyword .* extra arguments|Unknown cipher type|^Bad port|hostname contains invalid characters|remote username contains invalid"),
    (Cause.CONFIG_FILE, r"Can't open user config file|Bad owner or permissions on .*config|Could not open user configuration file"),
    # The host's key.
    (Cause.HOST_KEY_REVOKED, r"REVOKED HOST KEY DETECTED|host key .* is revoked|is marked as revoked"),
    (Cause.HOST_KEY_CHANGED, r"REMOTE HOST IDENTIFICATION HAS CHANGED|POSSIBLE DNS SPOOFING|Host key for .* has changed"),
    (Cause.HOST_KEY_UNKNOWN, r"[Nn]o .* host key is known for|The authenticity of host .* can't be established"),
    # A way through other hosts fails with their words first.
    (Cause.JUMP_FAILED, r"stdio forwarding failed|UNKNOWN port 65535|Stdio forwarding request failed|^ProxyCommand|proxy.*command not found"),
    # An open master that takes no more says so first; a fresh login then fails in words of its own.
    (Cause.MUX_REFUSED, r"mux_client_\w+: .*(?:refused|failed)"),
    # The network.
    (Cause.NAME_RESOLUTION, r"Could not resolve hostname|Name or service not known|Temporary failure in name resolution|nodename nor servname"),
    (Cause.BANNER_TIMED_OUT, r"timed out during banner exchange"),
    (Cause.REFUSED, r"connect to (?:host|address) .*: Connection refused"),
    (Cause.CONNECT_TIMED_OUT, r"connect to (?:host|address) .*: (?:Connection|Operation) timed out"),
    (Cause.NO_ROUTE, r"connect to (?:host|address) .*: (?:No route to host|Host is down)"),
    (Cause.NETWORK_UNREACHABLE, r"connect to (?:host|address) .*: (?:Network is unreachable|Network is down|Cannot assign requested address)"),
    (Cause.FIREWALL_REJECT, r"connect to (?:host|address) .*: (?:Permission denied|Invalid argument|Operation not permitted|Protocol not available)"),
    (Cause.OUT_OF_DESCRIPTORS, r"Too many open files"),
    (Cause.OLD_PROTOCOL, r"Protocol major versions differ"),
    (Cause.NOT_SSH, r"No SSH version received|banner exchange: .*invalid format|Bad remote protocol version|Bad protocol version identification|Bad packet length|banner line contains invalid characters|banner line too long|Invalid SSH identification string"),
    (Cause.RESET_BEFORE_BANNER, r"(?:kex_exchange_identification|ssh_exchange_identification): read: Connection reset|connect to (?:host|address) .*: Connection reset"),
    (Cause.CLOSED_BEFORE_BANNER, r"(?:kex_exchange_identification|ssh_exchange_identification): (?:Connection closed|client sent invalid|read: .*closed|banner line)|could not read protocol version"),
    # The agreement on algorithms.
    (Cause.NEGOTIATION_KEX, r"no matching key exchange method found|Unable to negotiate a key exchange method"),
    (Cause.NEGOTIATION_CIPHER, r"no matching cipher found"),
    (Cause.NEGOTIATION_MAC, r"no matching MAC found"),
    (Cause.NEGOTIATION_HOST_KEY, r"no matching host key type found|no hostkey alg|Bad server host key"),
    (Cause.NEGOTIATION_OTHER, r"Unable to negotiate|no matching \w+ found|DH_GEX group out of range|rsa-sha2.*(?:unsupported|not supported)"),
    # Who we are: what is wrong with our own key stands before the server's answer, which it explains.
    (Cause.TOO_MANY_FAILURES, r"Too many authentication failures"),
    (Cause.AGENT_REFUSED, r"sign_and_send_pubkey: signing failed.*agent refused|agent refused operation|communication with agent failed"),
    (Cause.SIGNATURE_ALGORITHM, r"no mutual signature (?:algorithm|supported)|send_pubkey_test: no mutual signature|signature algorithm .* not (?:supported|in)|sign_and_send_pubkey: no mutual|[Ll]oad (?:pubkey|key) .*: Invalid key length"),
    (Cause.KEY_UNPROTECTED, r"UNPROTECTED PRIVATE KEY FILE|are too open|Load key .*: bad permissions"),
    (Cause.KEY_PASSPHRASE, r"incorrect passphrase supplied|Enter passphrase for key|Load key .*: passphrase"),
    (Cause.KEY_DAMAGED, r"Load key .*: (?:error in libcrypto|invalid format|Is a directory|unknown or unsupported key type|incomplete message|string is too large)|no start line|PEM_read_bio"),
    (Cause.KEY_UNREADABLE, r"(?:Load key|Identity file) .*(?:: | not accessible: )Permission denied"),
    (Cause.KEY_MISSING, r"Identity file .* not accessible: No such file|Load key .*: No such file|no such identity: .*No such file"),
    (Cause.SECOND_FACTOR, r"Permission denied \((?!publickey\))(?=[^)]*(?:password|keyboard-interactive))(?![^)]*publickey)[^)]*\)"),
    (Cause.IDENTITY_REFUSED, r"Permission denied \([^)]*\)|Permission denied, please try again|Authentication failed\.?$|No more authentication methods"),
    (Cause.HOST_KEY_UNKNOWN, r"Host key verification failed"),
    # The session.
    (Cause.MUX_REFUSED, r"Control socket connect.*(?:Permission denied|refused)|master refused|ControlSocket .* already exists"),
    (Cause.SESSION_REFUSED, r"channel \d+: open failed|subsystem request failed|shell request failed|exec request failed|administratively prohibited"),
    (Cause.CONNECTION_LOST, r"Timeout, server .* not responding|Connection to .* closed by remote host|client_loop: send disconnect|packet_write_(?:wait|poll)|[Bb]roken pipe|Received disconnect from|Connection to .* timed out|Connection reset by|Connection closed by|Read from (?:remote host|socket)|Disconnected from"),
    (Cause.BROKEN_TRANSPORT, r"ssh_dispatch_run_fatal|message authentication code incorrect|[Cc]orrupted MAC|kex_exchange_identification"),
)  # fmt: skip
"""In the order in which they are tried."""
