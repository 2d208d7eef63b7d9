// What two runs changed in every repo: a list that leads to each diff.
import { ApiError, get } from "../api/client";
import type { RepoChanges, RunChanges } from "../api/schema";
import { countWords } from "../core/diffwords";
import { name } from "../core/foreign";
import { size } from "../core/format";
import { useLoad } from "../core/load";
import { Icon } from "./icons";
import { Part } from "./page";
import { Rows } from "./rows";
import { To } from "./words";

export function RepoChangeRows({ repos, more }: { repos: RepoChanges[]; more?: (() => void) | undefined }) {
  return (
    <Rows label="Repos that differ" rows={repos} rowHeight={53} columns={4} more={more}
      head={<tr><th>Repo</th><th>Files</th><th class="num p2">Bytes of them</th><th class="p2">How it got there</th></tr>}
      row={(one) => (
        <tr key={`${one.project}/${one.repo}`}>
          <td><Icon of="repo" /> {one.from && one.to ? <To class="main" row place={{ page: "diff", project: one.project, repo: one.repo, from: one.from, to: one.to }}>{name(one.repo)}</To> : <To class="main" row place={{ page: "files", project: one.project, repo: one.repo, ref: one.to || one.from, path: "" }}>{name(one.repo)}</To>}<small class="ind">{name(one.project)}</small></td>
          <td>{one.counts ? countWords(one.counts, one.more) : <span class="faint">not counted</span>}{!one.from ? <small>only the later run has it</small> : !one.to ? <small>only the earlier run has it</small> : null}</td>
          <td class="num p2">{one.counts ? `${size(one.counts.bytes_before)} → ${size(one.counts.bytes_after)}` : "–"}</td>
          <td class="p2">{one.kind === "input" ? "pushed" : `written by ${name(one.repo)}`}</td>
        </tr>)} />
  );
}

// The other repos of the two runs of a diff. An id that is no run shows nothing.
export function OtherRepos({ from, to, project, repo }: { from: string; to: string; project: string; repo: string }) {
  const loaded = useLoad<RunChanges | null>(`changes ${from} ${to}`, (signal) => get("/api/v1/runs/{run}/changes", { path: { run: to }, query: { from, limit: 100 }, signal }).catch((error: unknown) => {
    if (error instanceof ApiError && (error.status === 404 || error.status === 400)) return null;
    throw error;
  }));
  const others = (loaded.data?.repos ?? []).filter((one) => one.project !== project || one.repo !== repo);
  if (others.length === 0) return null;
  return (
    <div class="others"><Part id="others" title="The same two runs in other repos" right={<To place={{ page: "rundiff", from: loaded.data!.from, to: loaded.data!.to }}>all repos</To>}>
      <div class="panel"><RepoChangeRows repos={others} /></div>
    </Part></div>
  );
}
