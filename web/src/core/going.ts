// Going from place to place without loading the page again. A link is a plain <a href>; clicks on those of this page are taken here.
import { navigate } from "wouter-preact/use-browser-location";
import { BASE } from "../api/client";
import { belowBase } from "./places";

// `path` is below the base: "/runs?state=failed".
export function go(path: string, options: { replace?: boolean } = {}): void {
  navigate(BASE.slice(0, -1) + path, options);
}

// The address of the present place with other filters; an empty value takes one away.
export function withQuery(changes: Record<string, string | undefined>): string {
  const query = new URLSearchParams(location.search);
  for (const [key, value] of Object.entries(changes)) {
    if (value) query.set(key, value);
    else query.delete(key);
  }
  const text = query.toString();
  return location.pathname + (text ? `?${text}` : "");
}

// Goes there.
export function setQuery(changes: Record<string, string | undefined>, options: { replace?: boolean } = { replace: true }): void {
  navigate(withQuery(changes), options);
}

function clicked(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  const link = (event.target as Element | null)?.closest?.("a");
  // of an <a> in SVG, target and href are objects
  if (!link || link.hasAttribute("target") || link.hasAttribute("download")) return;
  const target = new URL(link.getAttribute("href") ?? "", location.href);
  if (target.origin !== location.origin || target.hash) return;
  const path = belowBase(target.pathname);
  if (path === null || /^\/(api|ui)\//.test(path)) return;
  event.preventDefault();
  navigate(target.pathname + target.search);
}

export function startGoing(): void {
  document.addEventListener("click", clicked);
}
