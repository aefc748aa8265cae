// A modal dialog: the browser's own, which keeps the focus inside and gives it back.

import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";

interface Props {
  title: string;
  close: () => void;
  children: ComponentChildren;
}

export function Dialog({ title, close, children }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const element = dialog.current;
    element?.showModal();
    return () => element?.close();
  }, []);
  return (
    <dialog ref={dialog} aria-labelledby={id} onClose={close} onCancel={close}>
      <div class="title">
        <h2 id={id}>{title}</h2>
        <button type="button" class="quiet" onClick={close}>Close</button>
      </div>
      {children}
    </dialog>
  );
}
