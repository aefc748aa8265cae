"""Every named cause of a failed attempt, and what to do about it."""

from enum import StrEnum


class Cause(StrEnum):
    """Every named cause."""

    OK = "ok"
    NAME_RESOLUTION = "name_resolution"
    REFUSED = "refused"
    CONNECT_TIMED_OUT = "connect_timed_out"
    NO_ROUTE = "no_route"
    NETWORK_UNREACHABLE = "network_unreachable"
    FIREWALL_REJECT = "firewall_reject"
    CLOSED_BEFORE_BANNER = "closed_before_banner"
    RESET_BEFORE_BANNER = "reset_before_banner"
    BANNER_TIMED_OUT = "banner_timed_out"
    NOT_SSH = "not_ssh"
    OLD_PROTOCOL = "old_protocol"
    NEGOTIATION_KEX = "negotiation_kex"
    NEGOTIATION_CIPHER = "negotiation_cipher"
    NEGOTIATION_MAC = "negotiation_mac"
    NEGOTIATION_HOST_KEY = "negotiation_host_key"
    NEGOTIATION_OTHER = "negotiation_other"
    BROKEN_TRANSPORT = "broken_transport"
    HOST_KEY_UNKNOWN = "host_key_unknown"
    HOST_KEY_CHANGED = "host_key_changed"
    HOST_KEY_REVOKED = "host_key_revoked"
    NO_IDENTITY = "no_identity"
    IDENTITY_REFUSED = "identity_refused"
    SECOND_FACTOR = "second_factor"
    TOO_MANY_FAILURES = "too_many_failures"
    AGENT_REFUSED = "agent_refused"
    SIGNATURE_ALGORITHM = "signature_algorithm"
    KEY_MISSING = "key_missing"
    KEY_UNREADABLE = "key_unreadable"
    KEY_UNPROTECTED = "key_unprotected"
    KEY_DAMAGED = "key_damaged"
    KEY_PASSPHRASE = "key_passphrase"
    BAD_CONFIGURATION = "bad_configuration"
    CONFIG_FILE = "config_file"
    UNSUPPORTED_OPTION = "unsupported_option"
    CONTROL_PATH_TOO_LONG = "control_path_too_long"
    CONTROL_PATH_UNUSABLE = "control_path_unusable"
    MUX_REFUSED = "mux_refused"
    MASTER_HUNG = "master_hung"
    MASTER_DIED = "master_died"
    JUMP_FAILED = "jump_failed"
    SESSION_REFUSED = "session_refused"
    LOST_BEFORE_SHELL = "lost_before_shell"
    CONNECTION_LOST = "connection_lost"
    LOGIN_FORBIDDEN = "login_forbidden"
    REMOTE_NOT_FOUND = "remote_not_found"
    REMOTE_NOT_EXECUTABLE = "remote_not_executable"
    REMOTE_FAILED = "remote_failed"
    REMOTE_KILLED = "remote_killed"
    REMOTE_255 = "remote_255"
    OUTPUT_CUT = "output_cut"
    SSH_MISSING = "ssh_missing"
    NO_USER = "no_user"
    SSH_KILLED = "ssh_killed"
    OUT_OF_DESCRIPTORS = "out_of_descriptors"
    DEADLINE = "deadline"
    UNRECOGNISED = "unrecognised"


REMEDIES: dict[Cause, str] = {
    Cause.OK: "",
    Cause.NAME_RESOLUTION: "The hub cannot resolve the host's name: check the name, and the hub's DNS if other names fail too; or give the address itself.",
    Cause.REFUSED: "Nothing listens on that port: check the port (rented nodes map a new one after each restart), then whether sshd runs.",
    Cause.CONNECT_TIMED_OUT: "No answer to the connection: the node is off, its address changed, or a firewall drops the packets.",
    Cause.NO_ROUTE: "A router says there is no such host: the node is off or has another address.",
    Cause.NETWORK_UNREACHABLE: "The hub's own network has no way there: check the hub's routes, and IPv6 if the address is one.",
    Cause.FIREWALL_REJECT: "A firewall or route between refuses the packets (this is not about keys): allow the port for the hub's address.",
    Cause.CLOSED_BEFORE_BANNER: "The port was open and closed at once: sshd is overloaded (MaxStartups), denies the hub's address, or something else listens there.",
    Cause.RESET_BEFORE_BANNER: "The connection was reset before sshd spoke: a port mapping whose container is gone, or a firewall that resets.",
    Cause.BANNER_TIMED_OUT: "The port accepts and says nothing: a port mapping without an sshd behind it, or a machine too loaded or stuck on its disk.",
    Cause.NOT_SSH: "Something else answers on that port: check the port.",
    Cause.OLD_PROTOCOL: "The server speaks SSH 1, which no client of today does: upgrade its sshd, or check that the port is the right one.",
    Cause.NEGOTIATION_KEX: "Client and server share no key exchange: upgrade the older one, or name a common KexAlgorithms in a config file.",
    Cause.NEGOTIATION_CIPHER: "Client and server share no cipher: upgrade the older one, or name a common one (Ciphers) in a config file.",
    Cause.NEGOTIATION_MAC: "Client and server share no MAC: upgrade the older one, or name a common one (MACs) in a config file.",
    Cause.NEGOTIATION_HOST_KEY: "The server has no host key of a type the client takes: make an Ed25519 one there (ssh-keygen -A) and restart its sshd.",
    Cause.NEGOTIATION_OTHER: "Client and server agree on no algorithm; the line says which, and what the server offers.",
    Cause.BROKEN_TRANSPORT: "What came back was not valid: a box between changes the bytes, or the server is broken; try once more, then look at the path.",
    Cause.HOST_KEY_UNKNOWN: "The hub has no pinned key for this host and port: let the agent report it, or check it out of band and pin it.",
    Cause.HOST_KEY_CHANGED: "Another key answers than the pinned one: the node was made anew, its port was given to another machine, or somebody is in between. Check out of band before pinning the new key.",
    Cause.HOST_KEY_REVOKED: "The key this host shows is marked as revoked in known_hosts: do not connect; find out why it is used.",
    Cause.NO_IDENTITY: "The hub had no key to offer: make one with `provewire ssh-key rotate`, or name one in ssh_identities.",
    Cause.IDENTITY_REFUSED: "The server took none of the keys offered. From here all its reasons look alike: key not in authorized_keys, two keys on one line, wrong modes or owner, user locked or not allowed. `provewire ssh-key doctor` tells them apart by another way in.",
    Cause.SECOND_FACTOR: "The server wants more than a key (a password or a second factor), which nobody can type here: allow publickey alone for this user.",
    Cause.TOO_MANY_FAILURES: "Too many keys were offered before the right one: name one identity and keep IdentitiesOnly.",
    Cause.AGENT_REFUSED: "The ssh agent would not sign: it is locked, wants a confirmation, or lost the key; use a key file instead.",
    Cause.SIGNATURE_ALGORITHM: "Client and server share no signature algorithm for this key (RSA with SHA-1, or too short, most often): use an Ed25519 key.",
    Cause.KEY_MISSING: "The hub's key file does not exist: restore it, or make a new one with `provewire ssh-key rotate` and install it.",
    Cause.KEY_UNREADABLE: "The hub's user may not read the key file: give it to that user, mode 0600.",
    Cause.KEY_UNPROTECTED: "ssh ignores a key others can read: chmod 600 the file named.",
    Cause.KEY_DAMAGED: "The hub's key file is no key: damaged, cut off, or with Windows line ends; restore it, or rotate the key.",
    Cause.KEY_PASSPHRASE: "The key has a passphrase and nobody can type it here: use a key without one for the hub, or an ssh agent.",
    Cause.BAD_CONFIGURATION: "An option or a value in the config file is wrong; the line names it.",
    Cause.CONFIG_FILE: "The config file named cannot be used: it is missing, or others may write it.",
    Cause.UNSUPPORTED_OPTION: "This ssh is too old for an option the hub uses: install OpenSSH 7.4 or newer.",
    Cause.CONTROL_PATH_TOO_LONG: "The folder of the control sockets has too long a name: give a shorter ssh_runtime_dir.",
    Cause.CONTROL_PATH_UNUSABLE: "The folder of the control sockets is gone or cannot be written: the hub makes it anew; check ssh_runtime_dir.",
    Cause.MUX_REFUSED: "The open master connection would not take another session, and a fresh login failed too, as the line behind says: mend that, and raise MaxSessions there.",
    Cause.MASTER_HUNG: "The open master connection hung; it was ended and the attempt made once more.",
    Cause.MASTER_DIED: "The open master connection died under its client; the attempt was made once more.",
    Cause.JUMP_FAILED: "The way through the jump host failed; its own words stand in front.",
    Cause.SESSION_REFUSED: "The login worked and the server refuses to run anything: MaxSessions 0, a forced command, or a restricted account.",
    Cause.LOST_BEFORE_SHELL: "The connection broke before there was a shell, and ssh did not say how far it had come: a port mapping whose container is gone, a firewall that resets, or an sshd that is overloaded or died.",
    Cause.CONNECTION_LOST: "The connection broke while in use: the network, the node, or its sshd went away; what had come by then is shown.",
    Cause.LOGIN_FORBIDDEN: "The login worked and the account may not have a shell (nologin); the text says why.",
    Cause.REMOTE_NOT_FOUND: "The node has no such command in its PATH: install it, or give the whole path.",
    Cause.REMOTE_NOT_EXECUTABLE: "The file is there and cannot be executed: check its mode, its file system's noexec, and its architecture.",
    Cause.REMOTE_FAILED: "The way in works; the command itself failed, and said why.",
    Cause.REMOTE_KILLED: "The way in works; the command was killed there (out of memory, most often).",
    Cause.REMOTE_255: "The way in works; the command itself ended with 255, which is not ssh's own failure.",
    Cause.OUTPUT_CUT: "The command began and its end never came: the connection or the remote shell ended in between.",
    Cause.SSH_MISSING: "The hub has no ssh: install openssh-client there, or name the program in ssh_program.",
    Cause.NO_USER: "The hub runs as a user no database knows, and ssh refuses to start for it: install libnss-systemd (for DynamicUser=yes), or run the hub as a user that exists.",
    Cause.SSH_KILLED: "The ssh process of the hub was killed from outside: look at the hub's memory and its log.",
    Cause.OUT_OF_DESCRIPTORS: "The hub has no file descriptors left: raise its limit (LimitNOFILE) or lower ssh_probes_max.",
    Cause.DEADLINE: "The attempt did not end in time and was ended: a server that hangs after its banner, a stuck file system there, or a command that waits.",
    Cause.UNRECOGNISED: "No rule knows these words: read them whole.",
}  # fmt: skip
"""What to do, one or two sentences each."""
