"""What helps nodes back, held together: keys, their rotation, recoveries, and the previews that wait for a word."""

from msgspec import Struct

from hub.ssh.install import Plan
from hub.ssh.keys import KeyDesk
from hub.ssh.previews import Previews
from hub.ssh.recovery import Recovery, RecoveryPlan
from hub.ssh.rotating import Rotator
from hub.ssh.unasked import Unasked

ROTATE = "rotate"
"""The preview of a rotation has no more to say than this."""


class Help(Struct, frozen=True):
    """The parts."""

    keys: KeyDesk
    rotator: Rotator
    recovery: Recovery
    unasked: Unasked
    installs: Previews[tuple[Plan, ...]]
    recoveries: Previews[RecoveryPlan]
    rotations: Previews[str]
