// Dialogs: what will happen and what stays; the focus is on what does no harm.
import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { Act, OfflineNote } from "./act";
import { ErrorNote } from "./page";

export function Dialog({ title, close, children, wide = false }: { title: string; close: () => void; children: ComponentChildren; wide?: boolean }) {
  const place = useRef<HTMLDialogElement>(null);
  const id = useId(); // two may be open: one of a page, and that of a session that has ended
  useEffect(() => {
    const dialog = place.current!;
    const before = document.activeElement as HTMLElement | null;
    if (!dialog.open) dialog.showModal();
    return () => {
      dialog.close();
      before?.focus?.();
    };
  }, []);
  return (
    <dialog ref={place} class={wide ? "wide" : ""} aria-labelledby={id} onCancel={(event) => (event.preventDefault(), close())}
      onClick={(event) => event.target === place.current && close()}>
      <div class="dialog">
        <h2 id={id}>{title}</h2>
        {children}
      </div>
    </dialog>
  );
}

// Asks before something is done; `act` does it, and its failure is shown in the dialog.
export function Confirm({ title, children, doIt, leave, act, close }: {
  title: string; children: ComponentChildren; doIt: string; leave: string; act: () => Promise<void>; close: () => void;
}) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<Error | null>(null);
  const run = async () => {
    setBusy(true);
    setError(null);
    try {
      await act();
      close();
    } catch (failed) {
      setError(failed instanceof Error ? failed : new Error(String(failed)));
      setBusy(false);
    }
  };
  return (
    <Dialog title={title} close={close}>
      <div class="stack">{children}</div>
      {error && <ErrorNote error={error} />}
      <OfflineNote />
      <div class="acts">
        <button type="button" class="btn" autofocus onClick={close}>{leave}</button>
        <Act main disabled={busy} onClick={() => void run()}>{busy ? "…" : doIt}</Act>
      </div>
    </Dialog>
  );
}
