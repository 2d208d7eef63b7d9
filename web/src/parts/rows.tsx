// Long lists: only the rows near the view are drawn; the rest is room above and below them.
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { RowHeights } from "../core/heights";

const AROUND = 30; // rows drawn above and below the view
const SHORT = 120; // a list of so many rows is drawn whole

export interface Window {
  from: number;
  to: number;
}

// Which rows are to be drawn of a list whose top is at `top` in a view of that height.
export function windowOf(count: number, heights: RowHeights, top: number, viewHeight: number): Window {
  if (count <= SHORT) return { from: 0, to: count };
  const first = heights.at(Math.max(0, -top), count);
  const shown = Math.ceil(viewHeight / heights.usual);
  return { from: Math.max(0, Math.min(first - AROUND, count - 1)), to: Math.min(count, first + shown + AROUND) };
}

// Rows of which some may not be here: of an array, or of a list that keeps only those near the view.
export interface RowSource<T> {
  length: number;
  slice(from: number, to: number): T[];
}

export function Rows<T>({ head, rows, rowHeight, row, columns, total, more, seen, label }: {
  head: ComponentChildren; rows: RowSource<T>; rowHeight: number; row: (item: T, i: number) => JSX.Element; columns: number; label: string;
  total?: number | undefined; // of all rows, if it is known
  more?: (() => void) | undefined; // loads the next page; undefined: this is all
  seen?: ((from: number, to: number) => void) | undefined; // is told which rows are drawn
}) {
  const body = useRef<HTMLTableSectionElement>(null);
  const heights = useRef<{ of: RowHeights; width: number }>();
  heights.current ??= { of: new RowHeights(rowHeight), width: 0 };
  const [shown, setShown] = useState<Window>({ from: 0, to: Math.min(rows.length, SHORT) });
  const latest = useRef({ more, seen });
  latest.current = { more, seen };
  useEffect(() => {
    let frame = 0;
    const look = () => {
      frame = 0;
      if (!body.current) return;
      const next = windowOf(rows.length, heights.current!.of, body.current.getBoundingClientRect().top, innerHeight);
      setShown((before) => (before.from === next.from && before.to === next.to ? before : next));
      latest.current.seen?.(next.from, next.to);
      if (next.to >= rows.length - AROUND) latest.current.more?.();
    };
    const soon = () => (frame ||= requestAnimationFrame(look));
    look();
    addEventListener("scroll", soon, { passive: true });
    addEventListener("resize", soon);
    return () => {
      cancelAnimationFrame(frame);
      removeEventListener("scroll", soon);
      removeEventListener("resize", soon);
    };
  }, [rows.length, rowHeight]);
  const to = Math.min(shown.to, rows.length);
  useLayoutEffect(() => {
    if (rows.length <= SHORT || !body.current) return;
    const width = body.current.offsetWidth;
    // other widths wrap rows otherwise
    if (width !== heights.current!.width) heights.current = { of: new RowHeights(rowHeight), width };
    let at = shown.from;
    for (const one of body.current.rows) {
      if (one.classList.contains("space")) continue;
      if (!one.classList.contains("room")) heights.current!.of.set(at, one.offsetHeight);
      at++;
    }
  });
  const { of: known } = heights.current;
  const room = (height: number, key: string) => (height > 0 ? <tr key={key} aria-hidden="true" class="room space"><td colSpan={columns} style={{ height: `${Math.round(height)}px` }} /></tr> : null);
  return (
    <table class="list" aria-label={label} aria-rowcount={total ?? (more ? -1 : rows.length + 1)}>
      <thead>{head}</thead>
      <tbody ref={body}>
        {room(known.before(shown.from), "above")}
        {rows.slice(shown.from, to).map((item, i) => row(item, shown.from + i))}
        {room(known.before(rows.length) - known.before(to), "below")}
      </tbody>
    </table>
  );
}

// Pages of a list by keyset, one after the other.
export interface Pages<T> {
  items: T[];
  more: (() => void) | undefined; // after an error it tries again
  error: Error | undefined;
}

export interface Page<T> {
  items: T[];
  next: string | undefined;
}

// The pages after the first one.
export interface Rest<T> extends Page<T> {
  key: string;
  from: string | undefined; // where they begin
  error?: Error;
}

// The pages that were loaded, if they still begin where the first page ends; else none.
export function restOf<T>(rest: Rest<T>, key: string, first: Page<T> | undefined): Rest<T> {
  return rest.key === key && rest.from === first?.next ? rest : { key, from: first?.next, items: [], next: first?.next };
}

export function usePages<T>(key: string, first: Page<T> | undefined, load: (after: string) => Promise<Page<T>>): Pages<T> {
  const [rest, setRest] = useState<Rest<T>>({ key, from: undefined, items: [], next: undefined });
  const busy = useRef(false);
  const mine = restOf(rest, key, first);
  const { from, next, items } = mine;
  const more = next
    ? () => {
        if (busy.current) return;
        busy.current = true;
        load(next)
          .then((page) => setRest({ key, from, items: [...items, ...page.items], next: page.next }))
          .catch((error: unknown) => setRest({ ...mine, error: error instanceof Error ? error : new Error(String(error)) }))
          .finally(() => (busy.current = false));
      }
    : undefined;
  return { items: [...(first?.items ?? []), ...items], more, error: mine.error };
}
