"""What the hub runs on a node: POSIX shell, for systemd and for containers without it, with nothing that waits for ever.

Every script prints sections, each behind a line ``== name``, so that one that cannot be read hides no other; what a node
lacks is an empty section. Values from this side reach a script only as quoted words or on standard input.
"""

import re
import shlex

SECTION = re.compile(r"^== ([a-z_]+)$", re.MULTILINE)

LIMIT = 'limited() { if command -v timeout >/dev/null 2>&1; then timeout 10 "$@"; else "$@"; fi; }\n'

KIND = r"""
kind() {
  printf '%s\n' "$1" | awk '
    NR > 12 {exit}
    NR == 1 {python = /(^|\/)(python|pypy)[0-9.]*$/}
    NR == 1 && /(^|\/)cuzk(-daemon)?$/ {print "cuzk"; exit}
    seen && !/^-/ {print; exit}
    (NR == 1 || python) && ($0 == "cli.main" || /(^|\/)provewire$/) {seen = 1}'
}
words() { tr '\0\n' '\n ' 2>/dev/null < "$1/cmdline"; }
"""
"""What a process of ours is, by its command line, a word a line: ``agent``, ``worker``, ``supervise``, ``cuzk``. Exactly:
an editor that has the agent's log open is no agent, nor is the shell that runs this very script."""

PROCESSES = r"""
for d in /proc/[0-9]*; do
  c=$(words "$d" 2>/dev/null) || continue
  case "$c" in *provewire*|*cli.main*|*cuzk*) ;; *) continue ;; esac
  k=$(kind "$c")
  case "$k" in agent|worker|supervise|cuzk)
    s=$(cut -d')' -f2- "$d/stat" 2>/dev/null | cut -d' ' -f2)
    echo "${d#/proc/} $s $k $(printf '%s' "$c" | tr '\n' ' ')" ;;
  esac
done
"""

LOOK = f"""{LIMIT}{KIND}
echo '== system'
uname -sr; cat /etc/hostname 2>/dev/null
if [ -d /run/systemd/system ]; then echo systemd; else echo no systemd; fi
echo '== processes'{PROCESSES}
echo '== gpu_processes'
hung=''
if command -v nvidia-smi >/dev/null 2>&1; then
  limited nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory,process_name --format=csv,noheader,nounits 2>&1
  [ $? = 124 ] && hung=yes
fi
echo '== gpus'
if [ -n "$hung" ]; then echo 'nvidia-smi did not answer within 10 s: the driver hangs'
elif command -v nvidia-smi >/dev/null 2>&1; then
  limited nvidia-smi --query-gpu=uuid,name,utilization.gpu,memory.used,memory.total,temperature.gpu --format=csv,noheader,nounits 2>&1
fi
echo '== cuzk'
if command -v curl >/dev/null 2>&1; then limited curl -sS --max-time 3 http://127.0.0.1:9821/status 2>&1 | head -c 65536; echo; fi
echo '== unit'
if [ -d /run/systemd/system ]; then
  limited systemctl show provewire-agent --no-pager -p LoadState,ActiveState,SubState,Result,MainPID,NRestarts,StatusText 2>&1
fi
echo '== log'
if [ -d /run/systemd/system ]; then limited journalctl -u provewire-agent -n 30 --no-pager -o short-iso 2>&1 | tail -c 16384
else for f in "${{PROVEWIRE_DATA_DIR:-$HOME/.local/share/provewire/agent}}"/*.log /var/log/provewire*.log; do
  [ -f "$f" ] && echo "-- $f" && tail -c 8192 "$f"; done; fi
echo '== disk'
df -Pk / "${{PROVEWIRE_DATA_DIR:-/var/lib}}" 2>&1
echo '== memory'
grep -E '^(MemTotal|MemAvailable|SwapTotal|SwapFree):' /proc/meminfo 2>&1
cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory.current 2>/dev/null
echo '== kernel'
(dmesg 2>/dev/null | grep -E 'Out of memory|NVRM: Xid|I/O error' | tail -n 10)
echo '== clock'
date +%s
"""
"""Everything the ladder shows beyond the login, in one go; it changes nothing."""


_FRAME = r"""
PATH=$PATH:/opt/provewire/bin:/usr/local/bin:$HOME/.local/bin
said='there is no provewire in PATH, nor in /opt/provewire/bin'
if command -v provewire >/dev/null 2>&1; then
  said=$(limited provewire status --frame --nonce "$nonce" 2>&1)
  case "$said" in pws1.*) ;; *)
    asked=0
    for d in /proc/[0-9]*; do
      [ "$asked" -lt 8 ] || break
      c=$(words "$d" 2>/dev/null) || continue
      case "$c" in *provewire*|*cli.main*) ;; *) continue ;; esac
      [ "$(kind "$c")" = agent ] || continue
      dir=$(printf '%s\n' "$c" | sed -n -e '/^--data-dir$/{n;p;q;}' -e 's/^--data-dir=//p' | head -n 1)
      [ -n "$dir" ] || dir=$(tr '\0' '\n' 2>/dev/null < "$d/environ" | sed -n 's/^PROVEWIRE_DATA_DIR=//p' | head -n 1)
      [ -n "$dir" ] || continue
      asked=$((asked + 1))
      one=$(limited provewire status --data-dir="$dir" --frame --nonce "$nonce" 2>&1)
      case "$one" in pws1.*) said="$one
$said" ;; esac
    done ;;
  esac
fi
printf '%s\n' "$said"
"""


def local_status(nonce: str) -> str:
    """The agent's own signed status, by its local view: ``provewire status --frame``.

    Where the usual data directory has no agent, those of running agents are asked. Nothing is run but the ``provewire``
    of the login's own path or of the usual place: what a stranger's process calls itself is no command.
    """
    return f"{LIMIT}{KIND}\nnonce={shlex.quote(nonce)}\necho '== frame'{_FRAME}"


_KEYS_FILE = r"""
u=${keys_user:-$(id -un)}
account() { { getent passwd "$u" || grep "^$u:" /etc/passwd; } 2>/dev/null | head -n 1 | cut -d: -f"$1"; }
h=$(account 6); h=${h:-$HOME}
f=${keys_file:-$h/.ssh/authorized_keys}
"""

_READ_KEYS = r"""
umask 077
listener=''; p=$$
while [ "${p:-0}" -gt 1 ]; do
  case "$(tr '\0' ' ' < "/proc/$p/cmdline" 2>/dev/null)" in sshd:*'[listener]'*) listener=$p; break ;; esac
  p=$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$p/status" 2>/dev/null)
done
from=${SSH_CONNECTION%% *}
echo '== where'; echo "$f"; echo "$u"; echo "$h"; echo "$from"
echo '== modes'
p=$(readlink -f "$f" 2>/dev/null || echo "$f")
while [ -n "$p" ] && [ "$p" != / ]; do
  [ -e "$p" ] && ls -ldn "$p" | { read -r mode _ owner group _; echo "$mode $owner $group $p"; }
  p=${p%/*}
done
ls -ldn / | { read -r mode _ owner group _; echo "$mode $owner $group /"; }
echo "$(id -u "$u" 2>/dev/null) $(id -g "$u" 2>/dev/null)"
echo '== sum'; (sha256sum "$f" 2>/dev/null || echo none) | cut -d' ' -f1
echo '== keys'; [ -r "$f" ] && base64 "$f"
echo '== sshd'
c=''; [ -n "$listener" ] && c=$(tr '\0' ' ' < "/proc/$listener/cmdline" | sed -n 's/.* -f *\([^ ]*\).*/\1/p')
sshd=$(command -v sshd || echo /usr/sbin/sshd)
t=$("$sshd" -T ${c:+-f "$c"} -C "user=$u,host=${from:-localhost},addr=${from:-127.0.0.1}" 2>/dev/null ||
  "$sshd" -T ${c:+-f "$c"} 2>/dev/null)
if [ -n "$t" ]; then echo "$t"
else for x in ${c:-/etc/ssh/sshd_config.d/*.conf /etc/ssh/sshd_config}; do
  [ -r "$x" ] && sed -n -e '/^[[:space:]]*[Mm]atch/q' -e 's/^[[:space:]]*//p' "$x"; done
fi | grep -iE '^(authorizedkeysfile|authorizedkeyscommand|strictmodes|pubkeyauthentication|permitrootlogin|allowusers|denyusers|allowgroups|denygroups|maxstartups|usepam|pubkeyacceptedalgorithms|pubkeyacceptedkeytypes|forcecommand|authenticationmethods) '
echo '== sshd_log'
if [ -n "$listener" ] && [ -f "/proc/$listener/fd/2" ]; then tail -n 400 "/proc/$listener/fd/2" 2>/dev/null
elif [ -d /run/systemd/system ]; then journalctl -t sshd -t sshd-session -n 400 --no-pager -o cat 2>/dev/null
else for x in /var/log/auth.log /var/log/secure; do [ -f "$x" ] && tail -n 400 "$x"; done; fi |
  grep -E 'Failed|[Rr]efused|not allowed|bad ownership|Invalid user|drop connection|MaxStartups|error:|correct key|expired' |
  tail -n 60
echo '== account'
echo "shell $(account 7)"; [ -x "$(account 7)" ] || echo shell_missing
echo "password $(passwd -S "$u" 2>/dev/null | cut -d' ' -f2)"
x=$(grep "^$u:" /etc/shadow 2>/dev/null) && { echo "shadow $(echo "$x" | cut -d: -f2 | cut -c1)"; echo "expires $(echo "$x" | cut -d: -f8)"; }
echo "groups $(id -Gn "$u" 2>/dev/null)"
[ -e /etc/nologin ] && echo "nologin $(head -c 200 /etc/nologin | tr '\n' ' ')"
true
"""
"""What the doctor looks at; it changes nothing. ``sum`` guards the write that may follow."""

_WRITE_KEYS = r"""
umask 077
real=$(readlink -f "$f" 2>/dev/null || echo "$f")
[ -e "$f" ] && f=$real
d=${f%/*}
own() { if [ "$(id -u)" = 0 ] && [ "$u" != root ]; then chown "$u" "$@"; fi; }
[ -d "$d" ] || { mkdir -p "$d" && own "$d"; } || exit 1
[ -k "$d" ] || chmod go-w "$d" || exit 1
case "$d" in "$h"/*) [ -k "$h" ] || chmod go-w "$h" || exit 1 ;; esac
now=$( (sha256sum "$f" 2>/dev/null || echo none) | cut -d' ' -f1)
if [ "$now" != "$1" ]; then echo 'the file was changed meanwhile; nothing was written' >&2; exit 75; fi
t=$d/.authorized_keys.provewire.$$
trap 'rm -f "$t"' EXIT
base64 -d > "$t" || exit 1
[ "$(sha256sum "$t" | cut -d' ' -f1)" = "$2" ] || { echo 'the new file did not arrive whole; nothing was written' >&2; exit 1; }
chmod 600 "$t" || exit 1
if [ -e "$f" ]; then
  chown --reference="$f" "$t" 2>/dev/null
  b=$d/authorized_keys.before-provewire-$(date +%Y%m%d%H%M%S)
  cp -p "$f" "$b" && echo "$b" || exit 1
else own "$t"; fi
sync "$t" 2>/dev/null || sync
mv -f "$t" "$f" && chmod 600 "$f" || exit 1
command -v restorecon >/dev/null 2>&1 && restorecon "$f"
sync "$d" 2>/dev/null || sync
echo written
"""
"""Writes the file that arrives on standard input, base64, if it still is what was read (``$1``) and is whole (``$2``):
beside, synced, renamed; a copy of the old one stays. Modes up to the home directory lose what sshd objects to,
but those of a folder that is everybody's, as /tmp is."""


def read_keys(path: str = "", user: str = "") -> str:
    """Reads the user's authorized_keys, or ``path`` where sshd reads another; changes nothing.

    Args:
        path: the file, where it is not the usual one.
        user: whose, where it is not the user that logs in.
    """
    return f"{_keys_file(path, user)}{_READ_KEYS}"


def write_keys(sum_before: str, sum_after: str, path: str = "", user: str = "") -> str:
    """Writes the file that arrives on standard input, base64, if it still is what was read and arrives whole."""
    for digest in (sum_before, sum_after):
        if not re.fullmatch(r"[0-9a-f]{64}|none", digest):
            raise ValueError(f"{digest!r} is no SHA-256")
    return f"{_keys_file(path, user)}set -- {sum_before} {sum_after}\n{_WRITE_KEYS}"


def _keys_file(path: str, user: str) -> str:
    return f"keys_file={shlex.quote(path)}\nkeys_user={shlex.quote(user)}\n{_KEYS_FILE}"


def console_line(public: str) -> str:
    """One line for the provider's console that appends a key, once and on a line of its own."""
    key = shlex.quote(public.strip())
    return (
        "umask 077; mkdir -p ~/.ssh; f=~/.ssh/authorized_keys; touch $f; "
        f'grep -qxF {key} $f || {{ [ -z "$(tail -c1 $f)" ] || echo >> $f; echo {key} >> $f; }}; chmod 700 ~/.ssh; chmod 600 $f'
    )


def sections(output: str) -> dict[str, str]:
    """What a script printed, by section; a section named twice keeps its first text."""
    parts = SECTION.split(output)
    found: dict[str, str] = {}
    for name, text in zip(parts[1::2], parts[2::2], strict=True):
        found.setdefault(name, text.strip("\n"))
    return found
