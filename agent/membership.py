"""Which hub this node belongs to, and as whom: read from the data directory, or gained by enrolment."""

import asyncio
import random

import msgspec
import structlog

from agent import identity
from agent.backoff import Backoff, Fault, Kind
from agent.clock import Clock, wait_event
from agent.config import Config, HubUrl, parse_hub
from agent.enroll import EnrolRefused, Token, enrol, enrollment_id_for, hub_of, read_token
from agent.errors import ConfigFault
from agent.hub_http import HttpClient
from agent.identity import Enrolled, Key
from agent.uplink import State, UplinkView

log = structlog.get_logger(__name__)


class Membership:
    """``hub`` and ``enrolled`` are None until they are known; what is done about it shows in ``view``."""

    def __init__(self, config: Config, view: UplinkView, *, clock: Clock, rng: random.Random) -> None:
        """Read what is saved.

        Raises:
            ConfigFault: the node is not enrolled and no token can be used, or what is saved cannot be.
        """
        self._config = config
        self._view = view
        self._clock = clock
        self._rng = rng
        self.hub: HubUrl | None = config.hub
        self.enrolled: Enrolled | None = identity.load_enrolled(config.data_dir)
        self._token = self._token_needed()
        self.hub = self.hub or self._saved_hub()
        if self.hub is not None:
            view.url = self.hub.base

    def _token_needed(self) -> Token | None:
        path = self._config.token_file
        if self.enrolled is not None:
            if path is not None:
                log.info("enroll.token_ignored", token_file=str(path), agent_id=self.enrolled.agent_id)
            return None
        if path is None:
            raise ConfigFault(
                f"this node is not enrolled ({self._config.data_dir / 'agent.json'} does not exist) and has no token; "
                "make one with `provewire enroll` at the hub and pass it with --token-file"
            )
        token = read_token(path)
        self.hub = hub_of(token, self._config.hub, insecure=self._config.insecure)
        return token

    def _saved_hub(self) -> HubUrl | None:
        if self.enrolled is None:
            return None
        source = f"the hub's address in {self._config.data_dir / 'agent.json'}"
        return parse_hub(self.enrolled.hub_url, insecure=self._config.insecure, source=source)

    @property
    def agent_id(self) -> str | None:
        """Our id at the hub, once we have one."""
        return self.enrolled.agent_id if self.enrolled is not None else None

    async def gain(self, stop: asyncio.Event, *, client: HttpClient, key: Key) -> None:
        """Enrol if need be, however long it takes, or until told to stop. The token file is read anew each time."""
        view, backoff = self._view, Backoff(self._rng)
        while self.enrolled is None and self._token is not None and not stop.is_set():
            view.state, view.attempts = State.ENROLLING, view.attempts + 1
            try:
                await self._enrol(client, key=key, token=self._token)
            except EnrolRefused as refused:
                fault = refused.fault
            except OSError as error:
                fault = Fault(Kind.UNREACHABLE, "disk", f"the new identity could not be saved: {error}")
            else:
                return
            wait_s = backoff.after(fault, session_s=None)
            view.last_reason, view.next_attempt_s = fault, self._clock.monotonic() + wait_s
            if view.reasons.note(fault, self._clock.unix_ms(), None):
                await self.save_reasons()
            view.state = State.REFUSED if fault.loud else State.WAITING
            say = log.error if fault.loud else log.warning
            say("enroll.refused", reason=fault.name, detail=fault.detail, hub=view.url, wait_s=round(wait_s, 1))
            await wait_event(self._clock, stop, wait_s)
            self._token = self._fresh_token(self._token)

    async def _enrol(self, client: HttpClient, *, key: Key, token: Token) -> None:
        config = self._config
        self.hub = hub = hub_of(token, config.hub, insecure=config.insecure)
        self._view.url = hub.base
        enrollment_id = await asyncio.to_thread(enrollment_id_for, config.data_dir, token)
        enrolled = await enrol(client, hub=hub, token=token, enrollment_id=enrollment_id, key=key, name=config.name)
        await asyncio.to_thread(identity.save_enrolled, config.data_dir, enrolled)
        log.info("enroll.done", agent_id=enrolled.agent_id, hub_id=enrolled.hub_id, hub=hub.base)
        self._view.last_reason = None
        self.enrolled = enrolled

    def _fresh_token(self, token: Token) -> Token:
        """The token file's present content: an operator may have put a fresh one there."""
        config = self._config
        if config.token_file is None:
            return token
        try:
            fresh = read_token(config.token_file)
            hub_of(fresh, config.hub, insecure=config.insecure)
        except ConfigFault as fault:
            log.warning("enroll.token_unusable", error=str(fault))
            return token
        return fresh

    async def save_generation(self, generation: int) -> None:
        """Remember the newest generation of the hub: an older copy of it is refused from now on."""
        if self.enrolled is None:
            return
        self.enrolled = msgspec.structs.replace(self.enrolled, generation=generation)
        try:
            await asyncio.to_thread(identity.save_enrolled, self._config.data_dir, self.enrolled)
        except OSError as error:
            log.warning("identity.not_saved", error=str(error))

    async def save_reasons(self) -> None:
        """Keep on the node why there was no session."""
        try:
            await asyncio.to_thread(self._view.reasons.save, self._config.reasons_path)
        except OSError as error:
            log.warning("reasons.not_saved", error=str(error))
