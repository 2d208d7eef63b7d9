// A long list of runs of which only the pages near the view are kept: the others are loaded again when they are scrolled to.
import type { Run } from "../api/schema";
import { isOver } from "./states";

export const KEPT = 12; // pages that are kept beside the first one
export const FRESH_MAX = 200; // runs that wait behind "12 new"; more are only said to be more

interface Page {
  after: string; // where it begins; "" = at the newest
  runs: Run[] | null; // null: it was let go
  count: number; // how many it had
  used: number; // when it was looked at last
}

export class RunList {
  private pages: Page[] = [];
  private fresh = new Map<string, Run>();
  private clock = 0;
  next: string | undefined = ""; // where the next page begins; undefined: there is none
  length = 0;
  gap = false; // more came than waits: there are runs between what waits and the first page, so the list has to begin anew

  // Adds the next page, or puts one back that was let go.
  put(after: string, runs: Run[], next: string | undefined): void {
    const page = this.pages.find((one) => one.after === after);
    this.clock += 1;
    for (const run of runs) this.fresh.delete(run.id);
    if (page) {
      this.length += runs.length - page.count;
      Object.assign(page, { runs, count: runs.length, used: this.clock });
    } else {
      this.pages.push({ after, runs, count: runs.length, used: this.clock });
      this.length += runs.length;
      this.next = next;
    }
    this.letGo();
  }

  // The rows of a range: null where the page is not there.
  slice(from: number, to: number): (Run | null)[] {
    const out: (Run | null)[] = [];
    let begin = 0;
    for (const page of this.pages) {
      const end = begin + page.count;
      if (end > from && begin < to) {
        for (let i = Math.max(from, begin); i < Math.min(to, end); i++) out.push(page.runs?.[i - begin] ?? null);
      }
      begin = end;
    }
    return out;
  }

  // Where those pages begin that a range needs and that are not there. Pages of the range are let go last.
  missing(from: number, to: number): string[] {
    const out: string[] = [];
    let begin = 0;
    this.clock += 1;
    for (const page of this.pages) {
      const end = begin + page.count;
      if (end > from && begin < to) {
        page.used = this.clock;
        if (!page.runs) out.push(page.after);
      }
      begin = end;
    }
    return out;
  }

  private letGo(): void {
    const held = this.pages.slice(1).filter((page) => page.runs).sort((a, b) => a.used - b.used);
    for (const page of held.slice(0, Math.max(0, held.length - KEPT))) page.runs = null;
  }

  has(id: string): boolean {
    return this.pages.some((page) => page.runs?.some((run) => run.id === id));
  }

  // Rows that are there are changed where they are; runs that are not wait behind the button.
  take(runs: Run[]): void {
    for (const run of runs) {
      const page = this.pages.find((one) => one.runs?.some((other) => other.id === run.id));
      if (page) page.runs = page.runs!.map((other) => (other.id === run.id ? run : other));
      else if (this.fresh.has(run.id) || this.isNew(run)) this.fresh.set(run.id, run);
    }
    while (this.fresh.size > FRESH_MAX) {
      this.fresh.delete(this.fresh.keys().next().value!);
      this.gap = true;
    }
  }

  // The newest runs after something may have been missed, and where those after them begin: what is new waits, and no row moves.
  catchUp(runs: Run[], next: string | undefined): void {
    if (next && runs.length > 0 && !runs.some((run) => this.has(run.id) || this.fresh.has(run.id))) this.gap = true;
    this.take(runs);
  }

  // The runs that may have changed meanwhile.
  going(): string[] {
    return [...this.pages.flatMap((page) => page.runs ?? []), ...this.fresh.values()].filter((run) => !isOver(run.state)).map((run) => run.id);
  }

  private isNew(run: Run): boolean {
    const newest = this.pages[0]?.runs?.[0];
    return !newest || run.created_us >= newest.created_us;
  }

  get waiting(): number {
    return this.fresh.size;
  }

  // Shows what waited, at the top.
  showFresh(): void {
    const runs = [...this.fresh.values()].sort((a, b) => b.created_us - a.created_us);
    const first = this.pages[0];
    if (!first?.runs) return;
    first.runs = [...runs, ...first.runs];
    first.count = first.runs.length;
    this.length += runs.length;
    this.fresh.clear();
  }

  // The rows that are held: what the headline is made from.
  first(): Run[] {
    return this.pages[0]?.runs ?? [];
  }

  get held(): number {
    return this.pages.reduce((sum, page) => sum + (page.runs?.length ?? 0), 0);
  }
}
