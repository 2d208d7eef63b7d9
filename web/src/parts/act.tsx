// A button that asks the daemon to do something, or leads to a question that does. While the daemon does not answer it is off and says
// why; it keeps the focus, so that a reader hears it.
import type { ComponentChildren } from "preact";
import { OFFLINE_WHY, offline } from "../core/offline";

export function Act({ children, onClick, main = false, small = false, disabled = false }: {
  children: ComponentChildren; onClick: () => void; main?: boolean; small?: boolean; disabled?: boolean;
}) {
  const off = offline.value;
  return (
    <button type="button" class={`btn ${main ? "main" : ""} ${small ? "small" : ""}`} disabled={disabled} onClick={() => { if (!offline.peek()) onClick(); }}
      {...(off ? { "aria-disabled": "true" as const, "aria-description": OFFLINE_WHY, title: OFFLINE_WHY } : {})}>
      {children}
    </button>
  );
}

// The same in words, for dialogs, which lie over the banner.
export function OfflineNote() {
  return <p class="small muted" role="status">{offline.value ? OFFLINE_WHY : ""}</p>;
}
