// What two runs changed in every repo.
import { get } from "../api/client";
import type { RepoChanges, RunChanges } from "../api/schema";
import { runsSentence } from "../core/diffwords";
import { short } from "../core/format";
import { useLoad } from "../core/load";
import { Crumbs, ErrorNote, Head } from "../parts/page";
import { type Pages, usePages } from "../parts/rows";
import { RepoChangeRows } from "../parts/runchanges";
import { Id, To } from "../parts/words";
import { Existing } from "./gone";

const PAGE = 100;

export function RunDiffPage({ from, to }: { from: string; to: string }) {
  const key = `rundiff ${from} ${to}`;
  const ask = (after: string | undefined, signal?: AbortSignal) => get("/api/v1/runs/{run}/changes", { path: { run: to }, query: { from, limit: PAGE, ...(after ? { after } : {}) }, signal });
  const loaded = useLoad(key, (signal) => ask(undefined, signal));
  const first = loaded.data && { items: loaded.data.repos, next: loaded.data.next ?? undefined };
  const pages = usePages<RepoChanges>(key, first, (after) => ask(after).then((page) => ({ items: page.repos, next: page.next ?? undefined })));
  return <Existing of={loaded} what={`pair of runs ${short(from)} and ${short(to)}`}>{(changes) => <RunDiff changes={changes} pages={pages} />}</Existing>;
}

function RunDiff({ changes, pages }: { changes: RunChanges; pages: Pages<RepoChanges> }) {
  const pushed = pages.items.filter((one) => one.kind === "input").map((one) => one.repo);
  return (
    <>
      <Crumbs>{[<To place={{ page: "runs" }}>Runs</To>, <><Id of={changes.from} /> to <Id of={changes.to} /></>]}</Crumbs>
      <Head title={runsSentence(pages.items.length, Boolean(pages.more), changes.same, pushed)}
        lead={[<>run <Id of={changes.from} place={{ page: "run", run: changes.from }} /></>, <>run <Id of={changes.to} place={{ page: "run", run: changes.to }} /></>]} />
      {pages.error && <ErrorNote error={pages.error} retry={pages.more} />}
      <div class="panel">{pages.items.length === 0 ? <p class="empty">Every repo has the same files.</p> : <RepoChangeRows repos={pages.items} more={pages.more} />}</div>
    </>
  );
}
