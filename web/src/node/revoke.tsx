// Taking a node out of the fleet.

import { useState } from "preact/hooks";
import { api } from "../api";
import { ActionDialog } from "../components/action";
import { visibleLine } from "../components/terminal_text";
import { go, link } from "../router";
import type { Node } from "./bodies";

export function RevokeButton({ node }: { node: Node }) {
  const [open, setOpen] = useState(false);
  const [gone, setGone] = useState(false);
  const close = () => {
    setOpen(false);
    if (gone) go(link("/"));
  };
  return (
    <>
      <button type="button" class="danger" onClick={() => setOpen(true)}>
        Revoke
      </button>
      {open && (
        <ActionDialog
          title={`Revoke ${visibleLine(node.name)}`}
          preview={async () => (node.session === null ? null : (node.status?.jobs.length ?? 0))}
          shown={(running) => (
            <ul>
              <li>Its socket is closed at once, and its key is not taken any more.</li>
              <li>It comes back only by a new enrolment, as another node. Its history stays.</li>
              <li>
                {running === null
                  ? "It is not heard, so what runs there is not known; jobs it holds go to other nodes and begin anew."
                  : running === 0
                  ? "No job of ours runs there now."
                  : `${running} of our jobs run there: they go to other nodes and begin anew.`}
              </li>
            </ul>
          )}
          verb={() => "Revoke it"}
          apply={async () => {
            await api.delete("/api/v1/nodes/{id}", { path: { id: node.id } });
            setGone(true);
          }}
          outcome={() => <p>It is revoked.</p>}
          close={close}
        />
      )}
    </>
  );
}
