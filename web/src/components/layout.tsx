// The frame around every view: where one can go, whether the hub is heard, who one is.

import { useSignal } from "@preact/signals";
import { type ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { linkIn } from "../address";
import { activeKeys, useKeys } from "../keys";
import { downSinceMs, link as liveLink } from "../live";
import { link, place as placeNow } from "../router";
import { logOut, may, me, said } from "../session";
import { hub, nowMs, tally } from "../store";
import { nextTheme, theme } from "../theme";
import { NAVIGATION, shown } from "../views";
import { clock } from "../words";
import { Dialog } from "./dialog";
import { Entrance } from "./entrance";

export function Page() {
  const main = useRef<HTMLElement>(null);
  const place = shown.value;
  const path = place?.view.path;
  // Before anybody can press a key in the new view, whose focus this would take away.
  useLayoutEffect(() => {
    window.scrollTo(0, 0);
    if (document.activeElement !== document.body) main.current?.focus({ preventScroll: true });
  }, [path]);
  if (me.value === undefined) return <p class="waiting" role="status">{said.value === "" ? "Waiting for the hub." : said.value}</p>;
  if (me.value === null || linkIn(placeNow.value.path)) return <Entrance />;
  const allowed = place !== null && may(place.view.least ?? "viewer");
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => skip(event, main.current)}>
        To the content
      </a>
      <Head path={path ?? ""} />
      <LinkDown />
      <main id="main" ref={main} tabIndex={-1}>
        {place === null ? (
          <Nothing title="Not found">There is nothing at this address. <a href={link("/")}>The fleet</a> is there.</Nothing>
        ) : allowed ? (
          <place.view.draw key={place.view.path} params={place.params} query={place.query} />
        ) : (
          <Nothing title={place.view.title}>Your role, {me.value?.role}, does not show this; an admin can change it.</Nothing>
        )}
      </main>
    </>
  );
}

function Nothing({ title, children }: { title: string; children: ComponentChildren }) {
  return (
    <>
      <h1>{title}</h1>
      <p class="empty">{children}</p>
    </>
  );
}

function skip(event: Event, main: HTMLElement | null): void {
  event.preventDefault(); // what stands after # is the view
  main?.focus();
}

function Head({ path }: { path: string }) {
  const help = useSignal(false);
  const nav = useRef<HTMLElement>(null);
  useEffect(() => {
    nav.current?.querySelector("[aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" });
  }, [path]);
  useKeys([{ key: "?", says: "show the keys", act: () => (help.value = true) }]);
  return (
    <header>
      <a class="brand" href={link("/")}>
        <img src="/favicon.svg" alt="" width="24" height="24" />
        Provewire
      </a>
      <nav aria-label="Views" ref={nav}>
        {NAVIGATION.filter((view) => may(view.least ?? "viewer")).map((view) => (
          <a key={view.path} href={link(view.path)} aria-current={view.path === path ? "page" : undefined}>
            {view.nav?.label}
          </a>
        ))}
      </nav>
      <div class="right">
        {hub.value?.insecure ? <span class="tag bad">insecure: tokens travel in the clear</span> : null}
        <Heard />
        <button type="button" class="quiet" onClick={nextTheme} aria-label={`Colours: ${theme.value}. Change`}>
          {{ system: "◐", light: "☀", dark: "☾" }[theme.value]}
        </button>
        <button type="button" class="quiet only-wide" onClick={() => (help.value = true)} aria-label="Keys">?</button>
        <span class="who only-wide">{me.value?.name} · {me.value?.role}</span>
        <button type="button" class="quiet" onClick={() => void logOut()}>Log out</button>
      </div>
      {help.value ? <Keys close={() => (help.value = false)} /> : null}
    </header>
  );
}

/** Whether what is shown is now. */
function Heard() {
  const state = liveLink.value;
  const { bad, warn } = tally.value;
  return (
    <span class="tag link" data-severity={{ live: "ok", connecting: "info", down: "bad" }[state]}>
      <span class="symbol" aria-hidden="true" />
      <span>{state === "down" ? "hub not heard" : state}</span>
      <span class="hidden">{`, ${bad} bad, ${warn} warnings`}</span>
    </span>
  );
}

function LinkDown() {
  const since = downSinceMs.value;
  if (liveLink.value !== "down" || since === null) return null;
  return (
    <p class="banner" data-severity="bad" role="alert">
      <strong>This page does not hear the hub since {clock(since, nowMs.value)}.</strong> What stands below is from then; the
      nodes and their proofs go on without it. Look whether the hub runs: <code>systemctl status provewire-hub</code>.
    </p>
  );
}

function Keys({ close }: { close: () => void }) {
  return (
    <Dialog title="Keys" close={close}>
      <dl class="facts">
        {activeKeys().map((key) => (
          <div key={key.key}>
            <dt>{key.key.split(" ").map((one) => <kbd key={one}>{one}</kbd>)}</dt>
            <dd>{key.says}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
