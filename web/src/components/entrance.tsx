// Coming in: by name and password, by a one-time link, and the first of all by a setup link.

import { useSignal } from "@preact/signals";
import { type ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { linkIn } from "../address";
import { sentence } from "../api";
import { go, place } from "../router";
import { logIn, said, setUp } from "../session";
import { Form, text } from "./form";
import { Trouble } from "./state";

export function Entrance() {
  const link = linkIn(place.value.path);
  if (link?.kind === "setup") return <SetUp code={link.code} />;
  return link ? <ByLink code={link.code} /> : <ByPassword />;
}

function Box({ title, children }: { title: string; children: ComponentChildren }) {
  return (
    <main class="entrance">
      <div class="box">
        <p class="brand"><img src="/favicon.svg" alt="" width="28" height="28" />Provewire</p>
        <h1>{title}</h1>
        {children}
      </div>
    </main>
  );
}

function ByPassword() {
  return (
    <Box title="Log in">
      {said.value === "" ? null : <p role="status">{said.value}</p>}
      <Form verb="Log in" send={(fields) => logIn({ name: text(fields, "name").trim(), password: text(fields, "password") })}>
        <label>Name<input name="name" autocomplete="username" required maxLength={64} autofocus autocapitalize="none" spellcheck={false} /></label>
        <label>Password<input name="password" type="password" autocomplete="current-password" required maxLength={256} /></label>
      </Form>
      <p class="small">At the hub's machine, <code>provewire login</code> prints a link that needs no password, and <code>provewire hub setup-link</code> one for a new admin.</p>
    </Box>
  );
}

function ByLink({ code }: { code: string }) {
  const trouble = useSignal("");
  useEffect(() => {
    logIn({ name: "", password: "", code }).then(
      () => go("/"),
      (error: unknown) => {
        trouble.value = sentence(error);
      },
    );
  }, [code]);
  if (trouble.value === "") return <Box title="Logging in"><p role="status">One moment.</p></Box>;
  return (
    <Box title="Log in">
      <Trouble>{trouble.value}</Trouble>
      <p><a href="#/">Log in by name and password</a></p>
    </Box>
  );
}

const PASSWORD_CHARS_MIN = 10;

function SetUp({ code }: { code: string }) {
  const send = async (fields: FormData): Promise<void> => {
    const password = text(fields, "password");
    if (password !== text(fields, "again")) throw new Error("The two passwords are not the same.");
    await setUp({ code, name: text(fields, "name").trim(), password });
    go("/");
  };
  return (
    <Box title="Set up an admin">
      <p>Choose how you will log in. This link is good once.</p>
      <Form verb="Set up and log in" send={send}>
        <label>Name<input name="name" autocomplete="username" required maxLength={64} pattern="[A-Za-z0-9][A-Za-z0-9._@+\-]*" title="letters, digits, . - _ @ +" autofocus autocapitalize="none" spellcheck={false} /></label>
        <label>Password<input name="password" type="password" autocomplete="new-password" required minLength={PASSWORD_CHARS_MIN} maxLength={256} /></label>
        <label>The same again<input name="again" type="password" autocomplete="new-password" required minLength={PASSWORD_CHARS_MIN} maxLength={256} /></label>
        <p class="small">At least {PASSWORD_CHARS_MIN} characters; some words with spaces are good.</p>
      </Form>
    </Box>
  );
}
