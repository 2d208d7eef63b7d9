// Small pieces of text that every page uses.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { name, middle } from "../core/foreign";
import { age, ago, clock, duration, msBetween, short, utc, when } from "../core/format";
import { now } from "../core/now";
import { type Place, href } from "../core/places";
import { Icon } from "./icons";

// A moment of the daemon's that no clock has is no reason to show nothing at all.
function Moment({ us, text }: { us: number; text: (us: number, nowMs: number) => string }) {
  const at = new Date(us / 1000);
  if (Number.isNaN(at.getTime())) return <span class="faint">–</span>;
  return <time dateTime={at.toISOString()} title={`${clock(us)}, ${utc(us)}`}>{text(us, now.value)}</time>;
}

// How long ago, written anew as time passes.
export function Age({ us, sentence = false }: { us: number; sentence?: boolean }) {
  return <Moment us={us} text={sentence ? ago : age} />;
}

export function When({ us }: { us: number }) {
  return <Moment us={us} text={when} />;
}

// From a start to an end, or to now.
export function Took({ from, to }: { from: number | null | undefined; to: number | null | undefined }) {
  if (!from) return <span class="faint">–</span>;
  return <>{duration(msBetween(from, to, now.value))}{to ? "" : " so far"}</>;
}

export function To({ place, query, children, class: also, row = false, label, chosen = false }: {
  place: Place; query?: Record<string, string | undefined>; children: ComponentChildren; class?: string; row?: boolean; label?: string; chosen?: boolean; // of tabs: the one that is shown
}) {
  return <a href={href(place, query)} class={also} {...(row ? { "data-row": true } : {})} {...(label ? { "aria-label": label } : {})} {...(chosen ? { "aria-current": "true" as const } : {})}>{children}</a>;
}

export function Id({ of, place }: { of: string; place?: Place }) {
  return place ? <a class="id" href={href(place)} title={of}>{short(of)}</a> : <span class="id" title={of}>{short(of)}</span>;
}

export function Path({ of, most = 60 }: { of: string; most?: number }) {
  return <code title={name(of)}>{middle(of, most)}</code>;
}

export function Repo({ project, repo, branch }: { project: string; repo: string; branch?: string | undefined }) {
  const place: Place = branch ? { page: "files", project, repo, ref: branch, path: "" } : { page: "repo", project, repo };
  return <a class="chip data" href={href(place)}><Icon of="repo" />{project === "default" ? "" : `${project}/`}{repo}{branch ? `@${/^[0-9a-f]{32}$/.test(branch) ? short(branch) : branch}` : ""}</a>;
}

export function CopyButton({ text, children = "Copy", small = true }: { text: string; children?: ComponentChildren; small?: boolean }) {
  const [said, say] = useState("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      say("Copied");
    } catch {
      say("Not allowed here: select it");
    }
    setTimeout(() => say(""), 2000);
  };
  return (
    <button type="button" class={`btn ${small ? "small" : ""}`} onClick={copy}>
      <Icon of="copy" /><span aria-live="polite">{said || children}</span>
    </button>
  );
}

// A command line to copy.
export function Command({ text }: { text: string }) {
  return <div class="cmd"><span class="p" aria-hidden="true">$</span><span>{name(text)}</span><CopyButton text={text} /></div>;
}

export function Lead({ children }: { children: ComponentChildren[] }) {
  return <p class="lead">{children.filter(Boolean).map((child) => <span>{child}</span>)}</p>;
}
