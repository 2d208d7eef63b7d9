// Where a file came from: back to the files that were pushed, with the stages, runs and code between them.
import { get } from "../api/client";
import type { WhyNode } from "../api/schema";
import { middle, name } from "../core/foreign";
import { counted, size } from "../core/format";
import { useLoad } from "../core/load";
import { href } from "../core/places";
import { factsOf, sentence } from "../core/provenance";
import { Icon } from "../parts/icons";
import { Crumbs, Head, Part, Skeleton } from "../parts/page";
import { Rows } from "../parts/rows";
import { WhyTree } from "../parts/whytree";
import { Age, CopyButton, Id, Repo, To } from "../parts/words";
import { Gone } from "./gone";

function download(tree: WhyNode, file: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([JSON.stringify(tree, null, 2)], { type: "application/json" }));
  link.download = `${file}.why.json`;
  link.click();
  URL.revokeObjectURL(link.href);
}

export function WhyPage({ project, repo, ref_, path }: { project: string; repo: string; ref_: string; path: string }) {
  const loaded = useLoad(`why ${project}/${repo}@${ref_}:${path}`, (signal) => get("/api/v1/why/{project}/{repo}/{ref}/{path}", { path: { project, repo, ref: ref_, path }, signal }));
  const file = path.split("/").pop() ?? "";
  if (!loaded.data) return loaded.error ? <Gone error={loaded.error} retry={loaded.reload} what={`file ${name(repo)}:/${name(path)}`} /> : <Skeleton rows={8} />;
  const tree = loaded.data;
  const facts = factsOf(tree);
  const commit = tree.commit ?? ref_;
  return (
    <>
      <Crumbs>{[<To place={{ page: "data" }}>Data</To>, <span>{project}</span>, <Repo project={project} repo={repo} />, <Id of={commit} />,
        <To place={{ page: "files", project, repo, ref: commit, path }}>{middle(path, 50)}</To>, <span>where it came from</span>]}</Crumbs>
      <Head title={sentence(name(file), facts)}
        lead={[<To place={{ page: "files", project, repo, ref: commit, path }}><code>{middle(`${repo}@${commit.slice(0, 8)}:/${path}`, 70)}</code></To>,
          facts.sources.length ? `${counted(facts.sources.length, "source file")} in ${counted(new Set(facts.sources.map((one) => one.commit)).size, "commit")}` : null,
          facts.more ? "more than is shown here" : null]}
        acts={<><CopyButton small={false} text={location.origin + href({ page: "why", project, repo, ref: commit, path })}>Copy link</CopyButton>
          <button type="button" class="btn" onClick={() => download(tree, file)}><Icon of="down" />JSON</button></>} />
      <div class="cols">
        <div>
          <Part id="tree" title="Where it came from"><div class="panel pad"><WhyTree tree={tree} /></div></Part>
          {facts.stages.length > 0 && (
            <Part id="sources" title="Sources" right={counted(facts.sources.length, "file")}>
              <div class="panel">
                <Rows label="Sources" rows={facts.sources} rowHeight={37} columns={3} head={<tr><th>File</th><th class="num">Size</th><th>Pushed</th></tr>}
                  row={(one) => (
                    <tr key={`${one.repo}${one.path}${one.commit}`}>
                      <td><Icon of="file" /> <To class="main" row place={{ page: "files", project: one.project ?? project, repo: one.repo!, ref: one.commit!, path: (one.path ?? "").replace(/^\//, "") }}>{middle(`${one.repo}:${one.path}`, 60)}</To></td>
                      <td class="num">{one.size != null ? size(one.size) : "–"}</td>
                      <td class="nowrap">in <Id of={one.commit!} place={{ page: "run", run: one.commit! }} />{one.created_us ? <>, <Age us={one.created_us} sentence /></> : null}</td>
                    </tr>)} />
              </div>
            </Part>)}
        </div>
        <aside aria-label="Code">
          {facts.stages.length > 0 && (
            <Part id="code" title="Code">
              <ul class="rows panel">{facts.stages.map((one) => (
                <li key={one.stage}><Icon of="git" /><div class="what"><b>{name(one.stage)}</b><p>{one.reused ? "reused of" : "ran in"} run <Id of={one.run} place={{ page: "run", run: one.run }} /></p>
                  <p class="small">code <span class="id">{one.code.slice(0, 12) || "in its spec"}</span>{one.git && <> · git <span class="id">{one.git.slice(0, 12)}</span></>}</p></div></li>
              ))}</ul>
            </Part>)}
        </aside>
      </div>
    </>
  );
}
