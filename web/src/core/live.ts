// What each stage and repo of a picture does and holds, a signal each: a change draws the nodes that show it and no others.
import { type Signal, batch, signal } from "@preact/signals";
import type { GraphState, RepoState, StageState } from "../api/schema";
import { afterJob } from "./folding";

type Kept<T> = Map<string, Signal<T | undefined>>;

function at<T>(kept: Kept<T>, key: string): Signal<T | undefined> {
  let one = kept.get(key);
  if (!one) kept.set(key, (one = signal<T | undefined>(undefined)));
  return one;
}

// What has not changed stays the same object, so that it is not drawn again. What is gone leaves an empty signal: a drawing may still
// look at it. There are as many as the pictures of this page had nodes.
function replace<T extends { key: string }>(kept: Kept<T>, list: T[]): void {
  const there = new Set<string>();
  for (const one of list) {
    there.add(one.key);
    const old = at(kept, one.key);
    if (JSON.stringify(old.peek()) !== JSON.stringify(one)) old.value = one;
  }
  for (const [key, one] of kept) if (!there.has(key)) one.value = undefined;
}

export class LiveStates {
  // Of a run: the commits that it read and wrote, by the keys of repos and stages. Undefined: the states are those of now.
  constructor(readonly refs?: Map<string, string>) {}

  private readonly stages: Kept<StageState> = new Map();
  private readonly repos: Kept<RepoState> = new Map();

  // Read while a component is drawn: it is drawn again when this stage or repo changes.
  stage(key: string): StageState | undefined {
    return at(this.stages, key).value;
  }

  repo(key: string): RepoState | undefined {
    return at(this.repos, key).value;
  }

  take(state: Pick<GraphState, "stages" | "repos">): void {
    batch(() => {
      replace(this.stages, state.stages);
      replace(this.repos, state.repos);
    });
  }

  // A job's event, before the daemon is asked again.
  hear(event: Record<string, unknown>): void {
    const one = this.stages.get(`${String(event["project"])}/${String(event["stage"])}`);
    const after = one && afterJob(one.peek(), event);
    if (one && after) one.value = after;
  }
}
