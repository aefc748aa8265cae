"""What ssh clients of many versions and platforms say, from public reports, with names, addresses and keys replaced.

Each text is the whole stderr of one attempt that ended with 255, under the cause it has to be recognised as.
"""

from hub.ssh.cause import Cause

_BANNER = "@" * 59
_CHANGED = (
    f"{_BANNER}\n@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\n{_BANNER}\n"
    "IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!\n"
    "Someone could be eavesdropping on you right now (man-in-the-middle attack)!\n"
    "It is also possible that a host key has just been changed.\n"
    "The fingerprint for the ED25519 key sent by the remote host is\nSHA256:aaaa.\n"
    "Please contact your system administrator.\nAdd correct host key in /state/known_hosts to get rid of this message.\n"
    "Offending ED25519 key in /state/known_hosts:1\n  remove with:\n"
    '  ssh-keygen -f "/state/known_hosts" -R "[203.0.113.5]:22022"\n'
    "Host key for [203.0.113.5]:22022 has changed and you have requested strict checking.\n"
    "Host key verification failed.\n"
)
_UNPROTECTED = (
    f"{_BANNER}\n@         WARNING: UNPROTECTED PRIVATE KEY FILE!          @\n{_BANNER}\n"
    "Permissions 0644 for '/state/key' are too open.\n"
    "It is required that your private key files are NOT accessible by others.\nThis private key will be ignored.\n"
    'Load key "/state/key": bad permissions\nroot@203.0.113.5: Permission denied (publickey).\n'
)
_REVOKED = (
    f"{_BANNER}\n@       WARNING: REVOKED HOST KEY DETECTED!               @\n{_BANNER}\n"
    "The ED25519 host key for [203.0.113.5]:22022 is marked as revoked.\n"
    "This could mean that a stolen key is being used to impersonate this host.\n"
    "ED25519 host key for [203.0.113.5]:22022 was revoked and you have requested strict checking.\n"
    "Host key verification failed.\n"
)

CORPUS: tuple[tuple[Cause, str], ...] = (
    (Cause.NAME_RESOLUTION, "ssh: Could not resolve hostname gone.example: Name or service not known"),
    (Cause.NAME_RESOLUTION, "ssh: Could not resolve hostname gone.example: Temporary failure in name resolution"),
    (Cause.NAME_RESOLUTION, "ssh: Could not resolve hostname x: nodename nor servname provided, or not known"),
    (Cause.NAME_RESOLUTION, "ssh: Could not resolve hostname x: No address associated with hostname"),
    (Cause.NAME_RESOLUTION, "ssh: Could not resolve hostname x: Non-recoverable failure in name resolution"),
    (Cause.REFUSED, "ssh: connect to host 203.0.113.5 port 22022: Connection refused"),
    (Cause.REFUSED, "ssh: connect to address 203.0.113.5 port 22: Connection refused\nlost connection"),
    (Cause.CONNECT_TIMED_OUT, "ssh: connect to host 203.0.113.5 port 22: Connection timed out"),
    (Cause.CONNECT_TIMED_OUT, "ssh: connect to host 203.0.113.5 port 22: Operation timed out"),
    (Cause.NO_ROUTE, "ssh: connect to host 203.0.113.5 port 22: No route to host"),
    (Cause.NO_ROUTE, "ssh: connect to host 203.0.113.5 port 22: Host is down"),
    (Cause.NETWORK_UNREACHABLE, "ssh: connect to host 2001:db8::5 port 22: Network is unreachable"),
    (Cause.NETWORK_UNREACHABLE, "ssh: connect to host 203.0.113.5 port 22: Cannot assign requested address"),
    (Cause.FIREWALL_REJECT, "ssh: connect to host 203.0.113.5 port 22: Permission denied"),
    (Cause.FIREWALL_REJECT, "ssh: connect to host 203.0.113.5 port 22: Invalid argument"),
    (Cause.FIREWALL_REJECT, "ssh: connect to host 203.0.113.5 port 22: Operation not permitted"),
    (Cause.CLOSED_BEFORE_BANNER, "kex_exchange_identification: Connection closed by remote host"),
    (
        Cause.CLOSED_BEFORE_BANNER,
        "kex_exchange_identification: Connection closed by remote host\nConnection closed by 203.0.113.5 port 22022",
    ),
    (Cause.CLOSED_BEFORE_BANNER, "ssh_exchange_identification: Connection closed by remote host"),
    (
        Cause.RESET_BEFORE_BANNER,
        "kex_exchange_identification: read: Connection reset by peer\nConnection reset by 203.0.113.5 port 22",
    ),
    (Cause.RESET_BEFORE_BANNER, "ssh_exchange_identification: read: Connection reset by peer"),
    (
        Cause.BANNER_TIMED_OUT,
        "Connection timed out during banner exchange\nConnection to 203.0.113.5 port 22 timed out",
    ),
    (
        Cause.NOT_SSH,
        "kex_exchange_identification: No SSH version received in first 1024 lines from server\n"
        "banner exchange: Connection to 203.0.113.5 port 80: invalid format",
    ),
    (Cause.NOT_SSH, "kex_exchange_identification: banner line contains invalid characters"),
    (Cause.NOT_SSH, "Bad packet length 1349676916.\nssh_dispatch_run_fatal: Connection to 203.0.113.5 port 22: "
     "message authentication code incorrect"),
    (
        Cause.OLD_PROTOCOL,
        "Protocol major versions differ: 2 vs. 1\n"
        "banner exchange: Connection to 203.0.113.5 port 22: could not read protocol version",
    ),
    (Cause.OLD_PROTOCOL, "Protocol major versions differ: 2 vs. 1"),
    (
        Cause.NEGOTIATION_KEX,
        "Unable to negotiate with 203.0.113.5 port 22: no matching key exchange method found. "
        "Their offer: diffie-hellman-group1-sha1",
    ),
    (
        Cause.NEGOTIATION_CIPHER,
        "Unable to negotiate with 203.0.113.5 port 22: no matching cipher found. Their offer: aes128-cbc,3des-cbc",
    ),
    (
        Cause.NEGOTIATION_MAC,
        "Unable to negotiate with 203.0.113.5 port 22: no matching MAC found. Their offer: hmac-md5",
    ),
    (
        Cause.NEGOTIATION_HOST_KEY,
        "Unable to negotiate with 203.0.113.5 port 22: no matching host key type found. Their offer: ssh-rsa,ssh-dss",
    ),
    (Cause.NEGOTIATION_HOST_KEY, "Bad server host key: Invalid key length"),
    (
        Cause.NEGOTIATION_OTHER,
        "Unable to negotiate with 203.0.113.5 port 22: no matching compression method found. Their offer: zlib",
    ),
    (
        Cause.BROKEN_TRANSPORT,
        "ssh_dispatch_run_fatal: Connection to 203.0.113.5 port 22: incorrect signature",
    ),
    (Cause.BROKEN_TRANSPORT, "ssh_dispatch_run_fatal: Connection to 203.0.113.5 port 22: error in libcrypto"),
    (
        Cause.HOST_KEY_UNKNOWN,
        "No ED25519 host key is known for [203.0.113.5]:22022 and you have requested strict checking.\n"
        "Host key verification failed.",
    ),
    (Cause.HOST_KEY_UNKNOWN, "Host key verification failed."),
    (Cause.HOST_KEY_CHANGED, _CHANGED),
    (Cause.HOST_KEY_CHANGED, _CHANGED.replace("\n", "\r\n")),
    (Cause.HOST_KEY_REVOKED, _REVOKED),
    (Cause.IDENTITY_REFUSED, "root@203.0.113.5: Permission denied (publickey)."),
    (Cause.IDENTITY_REFUSED, "root@203.0.113.5: Permission denied (publickey,password)."),
    (Cause.IDENTITY_REFUSED, "Permission denied (publickey,gssapi-keyex,gssapi-with-mic)."),
    (Cause.IDENTITY_REFUSED, "Welcome to the proxy\nroot@ssh5.example: Permission denied (publickey)."),
    (Cause.SECOND_FACTOR, "root@203.0.113.5: Permission denied (password)."),
    (Cause.SECOND_FACTOR, "root@203.0.113.5: Permission denied (keyboard-interactive)."),
    (
        Cause.TOO_MANY_FAILURES,
        "Received disconnect from 203.0.113.5 port 22:2: Too many authentication failures\n"
        "Disconnected from 203.0.113.5 port 22",
    ),
    (
        Cause.AGENT_REFUSED,
        'sign_and_send_pubkey: signing failed for ED25519 "hub" from agent: agent refused operation\n'
        "root@203.0.113.5: Permission denied (publickey).",
    ),
    (
        Cause.SIGNATURE_ALGORITHM,
        "sign_and_send_pubkey: no mutual signature supported\nroot@203.0.113.5: Permission denied (publickey).",
    ),
    (
        Cause.SIGNATURE_ALGORITHM,
        'load pubkey "/state/key": Invalid key length\nroot@203.0.113.5: Permission denied (publickey).',
    ),
    (Cause.SIGNATURE_ALGORITHM, "send_pubkey_test: no mutual signature algorithm\nroot@h: Permission denied (publickey)."),
    (
        Cause.KEY_MISSING,
        "Warning: Identity file /state/key not accessible: No such file or directory.\n"
        "root@203.0.113.5: Permission denied (publickey).",
    ),
    (Cause.KEY_MISSING, "no such identity: /state/key: No such file or directory\nroot@h: Permission denied (publickey)."),
    (Cause.KEY_UNREADABLE, 'Load key "/state/key": Permission denied\nroot@203.0.113.5: Permission denied (publickey).'),
    (Cause.KEY_UNPROTECTED, _UNPROTECTED),
    (Cause.KEY_DAMAGED, 'Load key "/state/key": error in libcrypto\nroot@203.0.113.5: Permission denied (publickey).'),
    (Cause.KEY_DAMAGED, 'Load key "/state/key": invalid format\nroot@203.0.113.5: Permission denied (publickey).'),
    (Cause.KEY_DAMAGED, 'Load key "/state/key": Is a directory\nroot@203.0.113.5: Permission denied (publickey).'),
    (
        Cause.KEY_PASSPHRASE,
        'Load key "/state/key": incorrect passphrase supplied to decrypt private key\n'
        "root@203.0.113.5: Permission denied (publickey).",
    ),
    (
        Cause.BAD_CONFIGURATION,
        "/state/config: line 2: Bad configuration option: nosuchoption\n"
        "/state/config: terminating, 1 bad configuration options",
    ),
    (Cause.BAD_CONFIGURATION, "/state/config line 2: Bad port 'abc'."),
    (
        Cause.BAD_CONFIGURATION,
        '/state/config line 2: no argument after keyword "hostname"\n/state/config: terminating, 1 bad configuration options',
    ),
    (Cause.BAD_CONFIGURATION, "Unknown cipher type 'x'"),
    (Cause.NO_USER, "No user exists for uid 61184"),
    (Cause.NO_USER, "You don't exist, go away!"),
    (Cause.CONFIG_FILE, "Can't open user config file /state/config: No such file or directory"),
    (Cause.CONFIG_FILE, "Bad owner or permissions on /home/me/.ssh/config"),
    (Cause.UNSUPPORTED_OPTION, "command-line: line 0: Bad configuration option: updatehostkeyz"),
    (Cause.UNSUPPORTED_OPTION, "unknown option -- Z\nusage: ssh [-46AaCfGgKkMNnqsTtVvXxYy] [-B bind_interface]"),
    (Cause.CONTROL_PATH_TOO_LONG, "ControlPath too long ('/run/x' >= 108 bytes)"),
    (Cause.CONTROL_PATH_TOO_LONG, 'unix_listener: path "/run/x.IsHHdaA0sJhgODZ9" too long for Unix domain socket'),
    (Cause.CONTROL_PATH_UNUSABLE, "unix_listener: cannot bind to path /run/x.abc: No such file or directory"),
    (
        Cause.MUX_REFUSED,
        "mux_client_request_session: session request failed: Session open refused by peer\n"
        "root@203.0.113.5: Permission denied (publickey).",
    ),
    (Cause.MUX_REFUSED, "mux_client_request_session: session request failed: Session open refused by peer"),
    (
        Cause.MUX_REFUSED,
        "mux_client_request_session: session request failed: Session open refused by peer\n"
        "ssh: connect to host 203.0.113.5 port 22: Connection refused",
    ),
    (
        Cause.JUMP_FAILED,
        "channel 0: open failed: connect failed: Connection refused\nstdio forwarding failed\n"
        "kex_exchange_identification: Connection closed by remote host\nConnection closed by UNKNOWN port 65535",
    ),
    (
        Cause.JUMP_FAILED,
        "me@jump.example: Permission denied (publickey).\n"
        "kex_exchange_identification: Connection closed by remote host\nConnection closed by UNKNOWN port 65535",
    ),
    (Cause.SESSION_REFUSED, "channel 0: open failed: administratively prohibited: open failed"),
    (Cause.SESSION_REFUSED, "subsystem request failed on channel 0"),
    (Cause.CONNECTION_LOST, "Connection to 203.0.113.5 closed by remote host."),
    (Cause.CONNECTION_LOST, "Timeout, server 203.0.113.5 not responding."),
    (Cause.CONNECTION_LOST, "client_loop: send disconnect: Broken pipe"),
    (Cause.CONNECTION_LOST, "packet_write_wait: Connection to 203.0.113.5 port 22: Broken pipe"),
    (Cause.LOST_BEFORE_SHELL, "Connection reset by 203.0.113.5 port 22"),
    (Cause.CONNECTION_LOST, "Connection to 203.0.113.5 port 22 timed out"),
    (Cause.UNRECOGNISED, "something nobody has seen yet"),
)  # fmt: skip
