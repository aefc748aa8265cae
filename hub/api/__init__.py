"""The hub's web side: REST, live stream, metrics and the page, added to the application by `setup`."""

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

import structlog
from aiohttp import web

from hub import ports
from hub.access.passwords import PASSWORDS, Passwords
from hub.access.roster import ROSTER, Roster
from hub.access.throttle import Throttle
from hub.api import (
    alerts,
    artifacts,
    audit,
    auth,
    circuits,
    enroll,
    history,
    incidents,
    jobs,
    live,
    login,
    logs,
    metrics,
    node_metrics,
    nodes,
    openapi,
    page,
    recovery,
    ssh,
    ssh_keys,
    tokens,
    users,
    views,
)
from hub.api.ailments import AILMENTS, Ailments
from hub.api.auditing import AUDITOR, Auditor, audited
from hub.api.errors import problems
from hub.api.feed import FEED, Feed
from hub.api.idempotency import RUNNING, idempotent
from hub.api.log_follow import LOG_FOLLOWERS, LogFollowers
from hub.api.request_id import answered, identified
from hub.api.route import Route, register
from hub.api.scrapes import SCRAPES, Scrapes
from hub.artifacts import Artifacts
from hub.faults import FAULTS
from hub.store.base import StoreError
from hub.undisturbed import Undisturbed
from hub.verify import Limits, Verifier

log = structlog.get_logger(__name__)

RESTART_S = 1.0
ENROLL_BURST_S = 5.0
"""Seconds' worth of enrolments that may come at once after a quiet time."""

_TABLE: tuple[Route, ...] = (
    *page.ROUTES,
    *login.ROUTES,
    *users.ROUTES,
    *tokens.ROUTES,
    *audit.ROUTES,
    *enroll.ROUTES,
    *nodes.ROUTES,
    *logs.ROUTES,
    *history.ROUTES,
    *artifacts.ROUTES,
    *circuits.ROUTES,
    *jobs.ROUTES,
    *live.ROUTES,
    *metrics.ROUTES,
    *ssh.ROUTES,
    *ssh_keys.ROUTES,
    *recovery.ROUTES,
    *incidents.ROUTES,
    *alerts.ROUTES,
)
ROUTES: tuple[Route, ...] = (*_TABLE, openapi.serving(_TABLE))
"""Every route of the web side; `/agent` is the sessions' own."""


def setup(app: web.Application) -> None:
    """Add routes, middlewares and parts. The application must hold every key of `hub.ports` when it starts.

    `ARTIFACTS` and `VERIFIER` are made here unless the application has them already.
    """
    config, clock = app[ports.CONFIG], app[ports.CLOCK]
    if ports.ARTIFACTS not in app:
        app[ports.ARTIFACTS] = Artifacts.open(
            config.artifacts_dir,
            artifact_bytes_max=config.artifact_bytes_max,
            total_bytes_max=config.artifacts_bytes_max,
        )
    if ports.VERIFIER not in app:
        app[ports.VERIFIER] = Verifier(
            Limits(
                cpu_s=math.ceil(config.verify_s), memory_bytes=config.verify_memory_bytes, deadline_s=config.verify_s
            ),
            allow_unsafe=config.allow_unsafe,
        )
    app[auth.FAILURES] = auth.Limiter(per_s=auth.FAILURES_PER_S, burst=auth.FAILURES_BURST, now_s=clock.monotonic)
    app[enroll.ENROLLMENTS] = auth.Limiter(
        per_s=config.enroll_per_s, burst=max(1.0, config.enroll_per_s * ENROLL_BURST_S), now_s=clock.monotonic
    )
    app[artifacts.UPLOADS] = asyncio.Semaphore(artifacts.UPLOADS_MAX)
    app[artifacts.DOWNLOADS] = Counter()
    app[nodes.UNDISTURBED] = Undisturbed()
    app[history.CHARTS] = asyncio.Semaphore(history.CHARTS_AT_ONCE_MAX)
    app[jobs.PAIRS] = jobs.CheckedPairs()
    app[views.NAMES] = views.Names(app)
    app[metrics.LAG], app[metrics.WORDS] = metrics.LoopLag(), node_metrics.Words()
    app[SCRAPES] = Scrapes(partial(metrics.make, app))
    app[page.PAGE] = page.Page()
    app[AILMENTS] = Ailments(app)
    app[FEED] = Feed(app)
    app[LOG_FOLLOWERS] = LogFollowers(app)
    app[PASSWORDS], app[login.THROTTLE], app[login.DELAYS] = Passwords(), Throttle(), login.Delays()
    app[AUDITOR], app[RUNNING] = Auditor(app), set()
    app.middlewares.extend([identified, problems, login.login_instead, audited, auth.authenticated, idempotent])
    app.on_response_prepare.extend([page.security_headers, answered])
    app.on_shutdown.append(_end_streams)
    app.cleanup_ctx.append(_tasks)
    register(app, ROUTES)


async def _end_streams(app: web.Application) -> None:
    """Streams have no end of their own, and the server waits for its handlers."""
    app[FEED].close()
    app[LOG_FOLLOWERS].close()


async def _tasks(app: web.Application) -> AsyncIterator[None]:
    """Know who may come in, follow the bus and measure the loop, as long as the application runs."""
    config = app[ports.CONFIG]
    app[ROSTER] = roster = Roster(
        app[ports.STORE].access,
        app[ports.CLOCK],
        idle_s=config.browser_idle_s,
        session_s=config.browser_session_ttl_s,
    )
    await roster.load()
    parts = (
        app[AILMENTS].run,
        app[FEED].run,
        app[LOG_FOLLOWERS].run,
        app[metrics.LAG].run,
        roster.run,
        app[AUDITOR].run,
    )
    running = [asyncio.create_task(_kept(part)) for part in parts]
    yield
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    await app[AUDITOR].flush()
    try:
        await roster.note()
    except StoreError as error:
        log.warning("when tokens and sessions were used could not be written down", error=str(error))
    app[PASSWORDS].close()


async def _kept(run: Callable[[], Awaitable[None]]) -> None:
    """Run until it returns. What looks on never takes the hub with it: a failure is logged, and it begins again."""
    while True:
        try:
            await run()
        except Exception:
            FAULTS.count("web")
            log.exception("a part of the web side failed; it begins again")
            await asyncio.sleep(RESTART_S)
        else:
            return
