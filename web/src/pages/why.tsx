// What came from what: back to the files that were pushed and the code between, and on to all that was made from it.
import { useState } from "preact/hooks";
import { ApiError, get } from "../api/client";
import type { Provenance, ProvenanceNode, WhyNode } from "../api/schema";
import { download } from "../core/download";
import { middle, name } from "../core/foreign";
import { counted, size } from "../core/format";
import { type Loaded, useLoad } from "../core/load";
import { href, type Place } from "../core/places";
import { factsOf, sentence } from "../core/provenance";
import { type Fold, type Graph, headline, withPage } from "../core/provgraph";
import { Icon } from "../parts/icons";
import { Crumbs, ErrorNote, Head, Part, Skeleton } from "../parts/page";
import { ProvenanceGraph, placeOfNode, wordsOf } from "../parts/provgraph";
import { Rows } from "../parts/rows";
import { WhyTree } from "../parts/whytree";
import { Age, CopyButton, Id, Repo, To } from "../parts/words";
import { now } from "../core/now";
import { Existing } from "./gone";

const DIRS = [["up", "Made from"], ["all", "Both"], ["down", "Made from it"]] as const;
type Dir = (typeof DIRS)[number][0];

function Directions({ place, dir }: { place: Place; dir: Dir }) {
  return (
    <span class="tabs">
      {DIRS.map(([value, words]) => <To key={value} place={place} query={{ dir: value === "up" ? undefined : value }} chosen={value === dir}>{words}</To>)}
    </span>
  );
}

function GraphPart({ answer, project, repo, place, dir }: { answer: Provenance; project: string; repo: string; place: Place; dir: Dir }) {
  const [graph, setGraph] = useState<Graph>(answer);
  const [error, setError] = useState<Error | null>(null);
  const more = async (fold: Fold) => {
    try {
      const page = await get("/api/v1/provenance/{project}/{repo}/{ref}/{path}", { path: { project, repo, ref: answer.commit, path: answer.path }, query: { dir: answer.dir, after: fold.level.next! } });
      setGraph((before) => withPage(before, page, fold.level.level));
      setError(null);
    } catch (failed) {
      setError(failed instanceof ApiError ? failed : new Error(String(failed)));
    }
  };
  return (
    <Part id="graph" title="Graph" beside={<Directions place={place} dir={dir} />} right={answer.more ? "not all was examined" : answer.deeper ? "it goes deeper than is shown" : undefined}>
      {error && <ErrorNote error={error} />}
      <ProvenanceGraph graph={graph} more={(fold) => void more(fold)} />
    </Part>
  );
}

// The stages whose commits are in the graph: version, code, image, where they ran.
function Makers({ nodes }: { nodes: ProvenanceNode[] }) {
  const made = nodes.filter((node) => node.job);
  if (made.length === 0) return null;
  return (
    <Part id="code" title="Code" right={counted(made.length, "job")}>
      <ul class="rows panel">{made.map((node) => {
        const job = node.job!;
        const head = (node.git as { head?: string } | null | undefined)?.head ?? "";
        const image = node.places?.find((place) => place.image_id)?.image_id ?? "";
        const places = [...new Set((node.places ?? []).map((place) => `${place.node || "this machine"}${place.gpus ? `, ${counted(place.gpus, "GPU")}` : ""}`))];
        return (
          <li key={node.key}><Icon of="git" /><div class="what">
            <b><To class="quiet" place={{ page: "job", project: job.project, stage: job.stage, run: job.run }}>{name(job.stage)}</To></b>
            <p>{job.version ? `version ${job.version} of ${name(job.pipeline)}, ` : ""}run <Id of={job.run} place={{ page: "run", run: job.run }} /></p>
            <p class="small">code <span class="id" title={node.code ?? ""}>{node.code?.slice(0, 12) ?? "in its spec"}</span>{head && <> · git <span class="id" title={head}>{head.slice(0, 12)}</span></>}{job.origin && <> · <code>{middle(job.origin.path, 40)}</code> at <span class="id" title={job.origin.commit}>{job.origin.commit.slice(0, 12)}</span></>}</p>
            {image && <p class="small">image <code title={image}>{middle(image, 34)}</code></p>}
            {places.length > 0 && <p class="small">ran on {places.map(name).join("; ")}</p>}
          </div></li>
        );
      })}</ul>
    </Part>
  );
}

function Sources({ sources, project }: { sources: WhyNode[]; project: string }) {
  return (
    <Part id="sources" title="Sources" right={counted(sources.length, "file")}>
      <div class="panel">
        <Rows label="Sources" rows={sources} rowHeight={37} columns={3} head={<tr><th>File</th><th class="num">Size</th><th>Pushed</th></tr>}
          row={(one) => (
            <tr key={`${one.repo}${one.path}${one.commit}`}>
              <td><Icon of="file" /> <To class="main" row place={{ page: "files", project: one.project ?? project, repo: one.repo!, ref: one.commit!, path: (one.path ?? "").replace(/^\//, "") }}>{middle(`${one.repo}:${one.path}`, 60)}</To></td>
              <td class="num">{one.size != null ? size(one.size) : "–"}</td>
              <td class="nowrap">in <Id of={one.commit!} place={{ page: "run", run: one.commit! }} />{one.created_us ? <>, <Age us={one.created_us} sentence /></> : null}</td>
            </tr>)} />
      </div>
    </Part>
  );
}

// The same commits as a list.
function Commits({ answer }: { answer: Provenance }) {
  const others = answer.nodes.filter((node) => node.key !== answer.root && !node.note);
  if (others.length === 0) return null;
  return (
    <Part id="commits" title="Commits" right={counted(others.length, "commit")}>
      <div class="panel">
        <Rows label="Commits" rows={others} rowHeight={37} columns={3} head={<tr><th>Commit</th><th>Files</th><th>Made</th></tr>}
          row={(node) => (
            <tr key={node.key}>
              <td><Icon of={node.job ? "stage" : "repo"} /> <To class="main" row place={placeOfNode(node)}>{`${name(node.repo!)}@${node.commit!.slice(0, 8)}`}</To></td>
              <td>{middle(wordsOf(node, now.value)[1], 40)}</td>
              <td class="nowrap"><Age us={node.created_us!} sentence /></td>
            </tr>)} />
      </div>
    </Part>
  );
}

export function WhyPage({ project, repo, ref_, path, query }: { project: string; repo: string; ref_: string; path: string; query: URLSearchParams }) {
  const dir: Dir = DIRS.map(([value]) => value).find((value) => value === query.get("dir")) ?? "up";
  const asked = { project, repo, ref: ref_, path };
  const loaded = useLoad(`provenance ${dir} ${project}/${repo}@${ref_}:${path}`, (signal) => get("/api/v1/provenance/{project}/{repo}/{ref}/{path}", { path: asked, query: { dir }, signal }));
  const why = useLoad(`why ${dir} ${project}/${repo}@${ref_}:${path}`, async (signal) => (dir === "down" || !path ? null : get("/api/v1/why/{project}/{repo}/{ref}/{path}", { path: asked, signal })));
  if (loaded.data && why.loading) return <Skeleton rows={8} />; // the headline is made from both
  return (
    <Existing of={loaded} what={path ? `file ${name(repo)}:/${name(path)}` : `commit ${name(ref_)} in ${name(repo)}`}>
      {(answer) => <Why answer={answer} why={why} project={project} repo={repo} ref_={ref_} path={path} dir={dir} />}
    </Existing>
  );
}

function Why({ answer, why, project, repo, ref_, path, dir }: { answer: Provenance; why: Loaded<WhyNode | null>; project: string; repo: string; ref_: string; path: string; dir: Dir }) {
  const what = path ? name(path.split("/").pop() ?? "") : `${name(repo)}@${name(ref_.slice(0, 8))}`;
  const facts = why.data ? factsOf(why.data) : null;
  const place: Place = { page: "why", project, repo, ref: answer.commit, path };
  const link = location.origin + href(place, { dir: dir === "up" ? undefined : dir });
  return (
    <>
      <Crumbs>{[<To place={{ page: "data" }}>Data</To>, <span>{project}</span>, <Repo project={project} repo={repo} />, <Id of={answer.commit} />,
        path ? <To place={{ page: "files", project, repo, ref: answer.commit, path }}>{middle(path, 50)}</To> : null, <span>what came from what</span>]}</Crumbs>
      <Head title={facts && dir === "up" && !facts.more ? sentence(what, facts) : headline(what, answer, counted)}
        lead={[<To place={{ page: "files", project, repo, ref: answer.commit, path }}><code>{middle(`${repo}@${answer.commit.slice(0, 8)}:/${path}`, 70)}</code></To>,
          facts?.sources.length ? `${counted(facts.sources.length, "source file")} in ${counted(new Set(facts.sources.map((one) => one.commit)).size, "commit")}` : null]}
        acts={<><CopyButton small={false} text={link}>Copy link</CopyButton>
          <button type="button" class="btn" onClick={() => download(JSON.stringify({ link, ...answer }, null, 2), "application/json", `${path.split("/").pop() || repo}.provenance.json`)}><Icon of="down" />JSON</button></>} />
      <div class="cols">
        <div>
          <GraphPart key={`${dir} ${answer.root} ${answer.path}`} answer={answer} project={project} repo={repo} place={place} dir={dir} />
          {why.error && <ErrorNote error={why.error} retry={why.reload} />}
          {why.data && <Part id="tree" title="Where it came from"><div class="panel pad"><WhyTree tree={why.data} /></div></Part>}
          {facts && facts.stages.length > 0 ? <Sources sources={facts.sources} project={project} /> : <Commits answer={answer} />}
        </div>
        <aside aria-label="Code"><Makers nodes={answer.nodes} /></aside>
      </div>
    </>
  );
}
