"""What a recovery runs on a node: POSIX shell, in the form of systemd and in that of a container without it.

Provers are processes of their own and are listed before and after; nothing here ever signals one. Values from this side
come as quoted words or on standard input.
"""

import shlex

from hub.ssh.scripts import KIND, LIMIT, PROCESSES

AGENT_BACK_S = 20
"""For a new agent process to appear."""
UNIT_RESTART_S = 60
"""For systemd to end an agent that hangs (its unit gives it 30 s) and to start another."""
LOG_LINES = 200
LOG_BYTES_MAX = 256 * 1024

_FIND = r"""
unit() { [ -d /run/systemd/system ] && systemctl cat provewire-agent >/dev/null 2>&1; }
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi; }
within() { s=$1; shift; if command -v timeout >/dev/null 2>&1; then as_root timeout "$s" "$@"; else as_root "$@"; fi; }
of_kind() { for d in /proc/[0-9]*; do
  c=$(words "$d" 2>/dev/null) || continue
  case "$c" in *provewire*|*cli.main*) ;; *) continue ;; esac
  [ "$(kind "$c")" = "$1" ] || continue
  [ "$(cut -d')' -f2- "$d/stat" 2>/dev/null | cut -d' ' -f2)" = Z ] && continue
  [ "$1" != supervise ] || printf '%s\n' "$c" | grep -qx agent || continue
  echo "${d#/proc/}"
done; }
start=$HOME/.local/share/provewire/supervise-agent.sh
ours() { [ -f "$1" ] && [ -O "$1" ] && case "$(ls -ld "$1")" in ?????w*|????????w*) false ;; esac; }
field() { sed -n "s/^$2:[[:space:]]*//p" "/proc/$1/status" 2>/dev/null; }
"""
"""``of_kind agent``: the living agents; ``of_kind supervise``: those who supervise one. ``$start`` is what `provewire
supervise` wrote down about its own start; it is run only if it is the login's own and nobody else may write it."""

_RESTART = rf"""
echo '== restart'
old=$(of_kind agent | tr '\n' ' ')
failed=''
if unit; then
  within {UNIT_RESTART_S} systemctl restart provewire-agent 2>&1; failed=$?; [ "$failed" = 0 ] && failed=''
  echo "systemctl restart provewire-agent: ${{failed:-done}}"
else
  told=''
  for s in $(of_kind supervise); do
    case "$(field "$s" SigCgt)" in
      *[13579bdf]) kill -HUP "$s" && kill -CONT "$s" && told="$told $s" ;;
      *) for a in $(of_kind agent); do [ "$(field "$a" PPid)" = "$s" ] && kill -KILL "$a" && told="$told $s"; done ;;
    esac
  done
  if [ -n "$told" ]; then echo "told the supervisor$told to start its agent anew"
  elif [ -n "$old" ]; then echo "the agent $old has no supervisor and was left alone: nothing would start it again"; failed=1
  elif ours "$start"; then
    echo "neither agent nor supervisor runs; started again by $start:"
    sed -n 's/^exec //p' "$start"
    if command -v setsid >/dev/null 2>&1; then setsid sh "$start" </dev/null >/dev/null 2>&1 &
    else nohup sh "$start" </dev/null >/dev/null 2>&1 & fi
  else echo "there is neither a unit nor a supervisor of an agent, and no $start of this user's; start \`provewire supervise agent\` as at its installation"; failed=1; fi
fi
n=0; new=''
while [ -z "$failed" ] && [ -z "$new" ] && [ "$n" -lt {AGENT_BACK_S * 2} ]; do
  sleep 0.5; n=$((n + 1))
  for a in $(of_kind agent); do case " $old " in *" $a "*) ;; *) new=$a ;; esac; done
done
if [ -n "$new" ]; then echo "the agent runs as process $new"
elif [ -z "$failed" ]; then echo 'no new agent appeared within {AGENT_BACK_S} s; fetch its logs'; failed=1; fi
"""


def _whole(body: str) -> str:
    """A script that lists processes before and after."""
    return f"{LIMIT}{KIND}{_FIND}\nfailed=''\necho '== before'{PROCESSES}{body}\necho '== after'{PROCESSES}\n[ -z \"$failed\" ]"


RESTART_AGENT = _whole(_RESTART)
"""Restarts the agent and nothing else. A container's supervisor is asked by SIGHUP; one too old to take it has its agent
killed, which it takes as a reason to start another. Where both were killed, the supervisor is started as it was last."""

_SETTINGS = r"""
told() { for p in $(of_kind supervise) $(of_kind agent); do
  words "/proc/$p" | sed -n -e "/^--$1\$/{n;p;}" -e "s/^--$1=//p" | tail -n 1
  tr '\0' '\n' < "/proc/$p/environ" 2>/dev/null | sed -n "s/^$2=//p"
done | head -n 1; }
in_unit() { { systemctl show provewire-agent -p Environment --value | tr ' ' '\n'; as_root cat /etc/provewire/agent.env; } 2>/dev/null |
  sed -n "s/^$1=//p" | tail -n 1; }
setting() { if unit; then in_unit "$2"; else told "$1" "$2"; fi; }
data=$(setting data-dir PROVEWIRE_DATA_DIR)
unit && data=${data:-/var/lib/provewire/agent}
data=${data:-$HOME/.local/share/provewire/agent}
"""
"""What the agent was started with: by its unit, or by the command line and environment of its processes."""


def fetch_logs(lines: int = LOG_LINES) -> str:
    """The newest lines of every log of ours there is; changes nothing."""
    count = int(lines)
    return rf"""{LIMIT}{KIND}{_FIND}{_SETTINGS}
echo '== logs'
{{ if [ -d /run/systemd/system ]; then
  echo '-- journal'; within 10 journalctl -u provewire-agent -u 'provewire-worker@*' -n {count} --no-pager -o short-iso 2>&1
fi
for p in $(of_kind supervise) $(of_kind agent); do
  [ -f "/proc/$p/fd/2" ] && readlink -f "/proc/$p/fd/2"
done | sort -u | while read -r x; do echo "-- $x"; tail -n {count} "$x" 2>&1; done
for x in "$data"/*.log "$data"/workers/*/*.log /var/log/provewire*.log; do
  [ -f "$x" ] && echo "-- $x" && tail -n {count} "$x" 2>&1
done; }} | tail -c {LOG_BYTES_MAX}
true
"""


RE_ENROL = _whole(
    rf"""{_SETTINGS}
echo '== enrol'
token=$(setting token-file PROVEWIRE_TOKEN_FILE)
t=''
if [ -z "$token" ]; then
  echo 'the agent was not started with --token-file (PROVEWIRE_TOKEN_FILE): it would not find a new token'; failed=1
elif [ ! -d "$data" ]; then echo "the agent's data directory $data does not exist"; failed=1
else
  umask 077
  now=$(date +%Y%m%d%H%M%S)
  t="$token.provewire.$$"
  if as_root sh -c 'cat > "$1" && chown --reference="$2" "$1" && mv -f "$1" "$3"' sh "$t" "$data" "$token"; then
    for x in agent.json agent.key; do
      [ ! -e "$data/$x" ] || as_root mv "$data/$x" "$data/$x.before-provewire-$now" || failed=1
    done
    echo "a new token lies at $token; the old identity beside the new one as *.before-provewire-$now"
  else echo "the token could not be written to $token"; failed=1; fi
fi
{_RESTART}"""
)
"""Makes the node enrol anew with the token on standard input; its old identity is kept beside."""


def upgrade(name: str, sha256: str, version: str) -> str:
    """Installs the wheel that arrives on standard input, base64, into the agent's own Python, and restarts the agent."""
    return _whole(
        rf"""
echo '== upgrade'
name={shlex.quote(name)} sum={shlex.quote(sha256)} version={shlex.quote(version)}
py=''
if unit; then py=$(systemctl show provewire-agent -p ExecStart --value | sed -n 's/.*path=\([^ ;]*\).*/\1/p' | head -n 1)
  py=$(head -n 1 "$py" 2>/dev/null | sed -n 's/^#!//p')
else for p in $(of_kind supervise) $(of_kind agent); do py=$(words "/proc/$p" | head -n 1); break; done; fi
says() {{ as_root "$py" -c 'import importlib.metadata as m; print(m.version("provewire"))' 2>&1; }}
have=$(says)
echo "python $py has provewire $have"
if [ -z "$py" ]; then echo 'no agent, supervisor or unit says which Python to upgrade'; failed=1
elif [ "$have" = "$version" ]; then echo "it is $version already: nothing to do"; cat > /dev/null
else
  d=$(mktemp -d) && trap 'rm -rf "$d"' EXIT
  base64 -d > "$d/$name"
  if [ "$(sha256sum "$d/$name" | cut -d' ' -f1)" != "$sum" ]; then echo 'the wheel did not arrive whole'; failed=1
  elif ! as_root "$py" -m pip install --quiet --disable-pip-version-check --upgrade "$d/$name" 2>&1; then
    echo "pip failed; provewire $(says) is installed"; failed=1
  else echo "provewire $(says) is installed now; workers go on with what they run"; fi
fi
if [ -z "$failed" ] && [ "$have" != "$version" ]; then
:{_RESTART}fi
"""
    )
