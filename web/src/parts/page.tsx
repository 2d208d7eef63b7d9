// The frame of a page's content: crumbs, headline, facts, actions; and what is shown while it loads or when it fails.
import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { ApiError } from "../api/client";
import type { Loaded } from "../core/load";
import { Lead } from "./words";

export function Crumbs({ children }: { children: ComponentChildren[] }) {
  return <nav aria-label="Where"><ol class="crumbs">{children.filter(Boolean).map((child) => <li>{child}</li>)}</ol></nav>;
}

let marked = false; // the first headline of the page is on the screen's way

// The headline; when the first one was there stands in the browser's performance timeline as "headline".
export function Head({ title, lead = [], acts }: { title: ComponentChildren; lead?: ComponentChildren[]; acts?: ComponentChildren }) {
  useEffect(() => {
    if (!marked) performance.mark("headline");
    marked = true;
  }, []);
  return (
    <div class="head">
      <div>
        <h1 tabIndex={-1}>{title}</h1>
        {lead.some(Boolean) && <Lead>{lead}</Lead>}
      </div>
      {acts && <div class="acts">{acts}</div>}
    </div>
  );
}

// A part of a page with its title.
export function Part({ id, title, right, beside, children }: {
  id: string; title: ComponentChildren; right?: ComponentChildren; beside?: ComponentChildren; children: ComponentChildren;
}) {
  return (
    <section aria-labelledby={`h-${id}`}>
      <div class="bar-head">
        <h2 id={`h-${id}`}>{title}</h2>
        {beside}
        {right && <span class="right">{right}</span>}
      </div>
      {children}
    </section>
  );
}

export function ErrorNote({ error, retry, again = "Try again" }: { error: Error; retry?: (() => void) | undefined; again?: string }) {
  const code = error instanceof ApiError ? error.code : "";
  return (
    <div class="panel pad stack problem" role="alert">
      <p><b>{error.message}</b>{error instanceof ApiError && error.field ? <span class="muted"> (field <code>{error.field}</code>)</span> : null}</p>
      {error instanceof ApiError && error.hint && <p class="muted">{error.hint}</p>}
      <p class="acts">{retry && <button type="button" class="btn small" onClick={retry}>{again}</button>}{code && <code class="faint">{code}</code>}</p>
    </div>
  );
}

export function Skeleton({ rows = 5 }: { rows?: number }) {
  return <div class="skeleton" aria-hidden="true">{Array.from({ length: rows }, () => <span />)}</div>;
}

// A part that fails shows its own message; what was shown before stays.
export function Content<T>({ of, rows, children }: { of: Loaded<T>; rows?: number; children: (data: T) => ComponentChildren }) {
  if (of.data !== undefined) {
    return <>{of.error && <ErrorNote error={of.error} retry={of.reload} />}{children(of.data)}</>;
  }
  if (of.error) return <ErrorNote error={of.error} retry={of.reload} />;
  return <Skeleton {...(rows ? { rows } : {})} />;
}
