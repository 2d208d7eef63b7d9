// The badge of an output that is out of date, and the sentence with the command that mends it.
import type { Freshness } from "../api/schema";
import { name } from "../core/foreign";
import { badgeOf, isStale, whyOf } from "../core/freshness";
import { Icon } from "./icons";
import { Command } from "./words";

export function StaleBadge({ of }: { of: Freshness | null | undefined }) {
  if (!isStale(of)) return null;
  return <span class="chip wait" title={name(of.text)}><Icon of="stale" />{badgeOf(of)}</span>;
}

// Why, and what to do about it.
export function StaleNote({ of }: { of: Freshness | null | undefined }) {
  if (!isStale(of)) return null;
  return <div class="stack"><p class="small">{name(whyOf(of))}</p><Command text={of.command} /></div>;
}
