// A secret that the hub shows this once.

import { CopyButton } from "./copy_button";

export function Once({ what, secret }: { what: string; secret: string }) {
  return (
    <div class="once">
      <p><strong>The {what} is shown this once.</strong> The hub keeps only its digest.</p>
      <pre tabIndex={0} aria-label={what}>{secret}</pre>
      <CopyButton text={secret} what={what} />
    </div>
  );
}
