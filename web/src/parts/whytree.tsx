// Where a file came from, as a list: a chain goes straight down, only a fork indents; many alike files are one row that opens.
import { useEffect, useRef, useState } from "preact/hooks";
import type { WhyNode } from "../api/schema";
import { middle, name } from "../core/foreign";
import { counted, short, size } from "../core/format";
import { isGroup } from "../core/provenance";
import { Icon } from "./icons";
import { Age, Id, To } from "./words";

const ALIKE = 3;

function FileRow({ node, end }: { node: WhyNode; end: boolean }) {
  const path = (node.path ?? "").replace(/^\//, "");
  const label = `${node.repo ?? ""}:${node.path || "/"}`;
  return (
    <div class={`n ${end ? "end" : ""}`}>
      <Icon of={path ? "file" : "folder"} />
      {node.input && <span class="faint">{name(node.input)} </span>}
      {node.repo && node.commit
        ? <To place={{ page: "files", project: node.project ?? "default", repo: node.repo, ref: node.commit, path }}><code>{middle(label, 64)}</code></To>
        : <code>{middle(label, 64)}</code>}
      <small>
        {node.size != null ? `${size(node.size)}, ` : node.files != null ? `${counted(node.files, "file")}, ` : ""}
        {node.stage || isGroup(node) ? null : "pushed "}{node.commit && <>in <Id of={node.commit} place={{ page: "run", run: node.commit }} /></>}
        {node.created_us ? <>, <Age us={node.created_us} sentence /></> : null}{node.note ? ` · ${name(node.note)}` : ""}
      </small>
    </div>
  );
}

function StageRow({ node }: { node: WhyNode }) {
  const git = (node.git as { head?: string } | null | undefined)?.head;
  return (
    <div class="n">
      <Icon of="stage" />
      <b>{node.run ? <To class="quiet" place={{ page: "job", project: node.project ?? "default", stage: node.stage!, run: node.run }}>{name(node.stage!)}</To> : name(node.stage!)}</b>
      <small>{node.reused ? "reused of" : "ran in"} run {node.run ? <Id of={node.run} place={{ page: "run", run: node.run }} /> : "–"}{node.code ? <> · code <span class="id" title={node.code}>{short(node.code)}</span></> : null}{git ? <> · git <span class="id" title={git}>{short(git)}</span></> : null}</small>
    </div>
  );
}

// The nodes below a file: its stage, then what the stage read.
function Inputs({ inputs }: { inputs: WhyNode[] }) {
  const [all, setAll] = useState(false);
  const fork = useRef<HTMLUListElement>(null);
  useEffect(() => {
    if (all) fork.current?.children[1]?.querySelector("a")?.focus(); // the button that had the focus is gone
  }, [all]);
  if (inputs.length === 0) return null;
  if (inputs.length === 1) return <Node node={inputs[0]!} />;
  const shown = all || inputs.length <= ALIKE ? inputs : inputs.slice(0, 1);
  return (
    <ul ref={fork} class="fork">
      {shown.map((node, i) => <li key={i}><Node node={node} /></li>)}
      {shown.length < inputs.length && <li><div class="n end"><button type="button" class="btn plain small" onClick={() => setAll(true)}>and {inputs.length - shown.length} more</button></div></li>}
    </ul>
  );
}

function Node({ node: given }: { node: WhyNode }) {
  // an input of one file is that file
  const only = isGroup(given) && given.inputs!.length === 1 && !given.more ? given.inputs![0]! : null;
  const node = only ? { ...only, input: given.input ?? only.input ?? null } : given;
  const inputs = node.inputs ?? [];
  const end = !node.stage && inputs.length === 0;
  return (
    <>
      <FileRow node={node} end={end} />
      {node.stage && <StageRow node={node} />}
      <Inputs inputs={inputs} />
    </>
  );
}

// `root` false leaves the file itself out.
export function WhyTree({ tree, root = true }: { tree: WhyNode; root?: boolean }) {
  return (
    <div class="why">
      {root ? <Node node={tree} /> : <>{tree.stage ? <StageRow node={tree} /> : <FileRow node={tree} end />}<Inputs inputs={tree.inputs ?? []} /></>}
    </div>
  );
}
