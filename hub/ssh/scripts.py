"""What the hub runs on a node: POSIX shell, for systemd and for containers without it, with nothing that waits for ever.

Every script prints sections, each behind a line ``== name``, so that one that cannot be read hides no other; what a node
lacks is an empty section. Values from this side reach a script only as quoted words or on standard input.
"""

import re
import shlex

SECTION = re.compile(r"^== ([a-z_]+)$", re.MULTILINE)

_LIMIT = 'limited() { if command -v timeout >/dev/null 2>&1; then timeout 10 "$@"; else "$@"; fi; }\n'

_PROCESSES = """
for d in /proc/[0-9]*; do
  c=$(tr '\\0' ' ' < "$d/cmdline" 2>/dev/null) || continue
  case "$c" in
    *provewire*worker*|*provewire*agent*|*provewire*supervise*|*cuzk-daemon*|*cuzk*--config*|*/cuzk\\ *)
      s=$(cut -d')' -f2- "$d/stat" 2>/dev/null | cut -d' ' -f2)
      echo "${d#/proc/} $s $c" ;;
  esac
done
"""

LOOK = f"""{_LIMIT}
echo '== system'
uname -sr; cat /etc/hostname 2>/dev/null
if [ -d /run/systemd/system ]; then echo systemd; else echo no systemd; fi
echo '== processes'{_PROCESSES}
echo '== gpu_processes'
if command -v nvidia-smi >/dev/null 2>&1; then
  limited nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory,process_name --format=csv,noheader,nounits 2>&1
fi
echo '== gpus'
if command -v nvidia-smi >/dev/null 2>&1; then
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


def local_status(nonce: str) -> str:
    """The agent's own signed status, by its local view: ``provewire status --frame``."""
    return f"echo '== frame'\nprovewire status --frame --nonce {shlex.quote(nonce)} 2>&1"


RESTART_AGENT = f"""{_LIMIT}
echo '== before'{_PROCESSES}
echo '== restart'
if [ -d /run/systemd/system ] && systemctl cat provewire-agent >/dev/null 2>&1; then
  limited systemctl restart provewire-agent 2>&1; echo "systemctl: $?"
else
  found=''
  for d in /proc/[0-9]*; do
    c=$(tr '\\0' ' ' < "$d/cmdline" 2>/dev/null) || continue
    case "$c" in *provewire\\ agent*|*provewire\\ --*agent*) kill -TERM "${{d#/proc/}}" && found="$found ${{d#/proc/}}" ;; esac
  done
  if [ -n "$found" ]; then echo "told$found to stop; the supervisor starts it again"; else echo 'no agent runs'; fi
fi
echo '== after'
sleep 2{_PROCESSES}
"""
"""Restarts the agent and nothing else: workers and other provers are processes of their own and are listed before and
after, so that everybody sees that they are the same."""

_KEYS_FILE = r"""
h=$(getent passwd "$(id -un)" 2>/dev/null | cut -d: -f6); h=${h:-$HOME}
f=${keys_file:-$h/.ssh/authorized_keys}
"""

_READ_KEYS = r"""
umask 077
echo '== where'; echo "$f"; id -un
echo '== modes'
p=$f
while [ -n "$p" ] && [ "$p" != / ]; do
  [ -e "$p" ] && ls -ldn "$p" | awk -v p="$p" '{print $1, $3, p}'
  p=${p%/*}
done
ls -ldn / | awk '{print $1, $3, "/"}'
id -u
echo '== sum'; (sha256sum "$f" 2>/dev/null || echo none) | cut -d' ' -f1
echo '== keys'; base64 < "$f" 2>/dev/null
echo '== sshd'
(sshd -T 2>/dev/null || /usr/sbin/sshd -T 2>/dev/null) | grep -E '^(authorizedkeysfile|strictmodes|pubkeyauthentication|permitrootlogin|allowusers|denyusers|allowgroups|denygroups|maxstartups|usepam|pubkeyacceptedalgorithms) '
echo '== sshd_log'
if [ -d /run/systemd/system ]; then journalctl -t sshd -n 200 --no-pager -o cat 2>/dev/null
else for l in /var/log/auth.log /var/log/secure; do [ -f "$l" ] && tail -n 200 "$l"; done; fi |
  grep -E 'Failed|refused|Refused|not allowed|bad ownership|Invalid user|drop connection|error:|correct key' | tail -n 40
echo '== account'
getent passwd "$(id -un)" 2>/dev/null | cut -d: -f7
passwd -S "$(id -un)" 2>/dev/null | cut -d' ' -f2
ls /etc/nologin 2>/dev/null
"""
"""What the doctor looks at; it changes nothing. ``sum`` guards the write that may follow."""

_WRITE_KEYS = r"""
umask 077
real=$(readlink -f "$f" 2>/dev/null || echo "$f")
[ -e "$f" ] && f=$real
d=${f%/*}
mkdir -p "$d" && chmod go-w "$d" || exit 1
case "$d" in "$h"/*) chmod go-w "$h" || exit 1 ;; esac
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
fi
sync "$t" 2>/dev/null || sync
mv -f "$t" "$f" && chmod 600 "$f" || exit 1
command -v restorecon >/dev/null 2>&1 && restorecon "$f"
sync "$d" 2>/dev/null || sync
echo written
"""
"""Writes the file that arrives on standard input, base64, if it still is what was read (``$1``) and is whole (``$2``):
beside, synced, renamed; a copy of the old one stays. Modes up to the home directory lose what sshd objects to."""


def read_keys(path: str = "") -> str:
    """Looks at the account's authorized_keys, or at ``path`` where sshd reads another; changes nothing."""
    return f"{_keys_file(path)}{_READ_KEYS}"


def write_keys(sum_before: str, sum_after: str, path: str = "") -> str:
    """Writes the file that arrives on standard input, base64, if it still is what was read and arrives whole."""
    for digest in (sum_before, sum_after):
        if not re.fullmatch(r"[0-9a-f]{64}|none", digest):
            raise ValueError(f"{digest!r} is no SHA-256")
    return f"{_keys_file(path)}set -- {sum_before} {sum_after}\n{_WRITE_KEYS}"


def _keys_file(path: str) -> str:
    return f"keys_file={shlex.quote(path)}\n{_KEYS_FILE}"


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
