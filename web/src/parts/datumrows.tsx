// The datums of a job, or of a failure group, beside the one that is chosen. The first ones are shown at once; all others, page by page,
// when they are asked for, and only those near the view are drawn.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { middle } from "../core/foreign";
import { number, size } from "../core/format";
import { Icon } from "./icons";
import { Part, Skeleton } from "./page";
import { type Pages, Rows } from "./rows";

const FIRST = 12;

export interface DatumRow {
  key: string;
  id: string;
  text: string;
  bytes: number;
  state?: string | undefined; // said beside the text, if it did not end well
  reused?: string | undefined; // the earlier run that computed its result
}

export function DatumRows({ title, tabs, pages, total, chosen, to, loading = false }: {
  title: ComponentChildren; tabs: ComponentChildren; pages: Pages<DatumRow>; chosen: string; to: (id: string) => string; loading?: boolean;
  total?: number; // of all, if it is known
}) {
  const [all, setAll] = useState(false);
  const list = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (all) list.current?.querySelectorAll("a")[FIRST]?.focus(); // the button that had the focus is gone
  }, [all]);
  const items = all ? pages.items : pages.items.slice(0, FIRST);
  const left = (total ?? pages.items.length) - items.length;
  return (
    <Part id="datums" title={title}>
      {tabs}
      <div class="panel after" ref={list}>
        {loading && <Skeleton rows={3} />}
        {!loading && pages.items.length === 0 && <p class="empty">No such datum is kept.</p>}
        {items.length > 0 && (
          <Rows label="Datums" rows={items} rowHeight={37} columns={2} total={total === undefined ? undefined : total + 1} more={all ? pages.more : undefined}
            head={<tr class="visually-hidden"><th>Datum</th><th>Size of its inputs</th></tr>}
            row={(one) => (
              <tr key={one.key} class={one.id === chosen ? "sel" : ""}>
                <td><Icon of="file" /> <a class="main quiet" data-row href={to(one.id)} aria-current={one.id === chosen ? "true" : undefined}><code>{middle(one.text, 30)}</code></a>{one.state && <span class="small muted"> {one.state}</span>}</td>
                <td class="num">{size(one.bytes)}</td>
              </tr>)} />)}
        {!all && left > 0 && <p class="pad"><button type="button" class="btn small" onClick={() => setAll(true)}>{total === undefined && pages.more ? "at least " : ""}{number(left)} more</button></p>}
      </div>
    </Part>
  );
}
