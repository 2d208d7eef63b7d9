// The graph of what came from what: commits as boxes in columns, each a link; a column that has more ends in a button.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { ProvenanceNode } from "../api/schema";
import { rounded } from "../core/drawing";
import { name } from "../core/foreign";
import { age, counted, number, short } from "../core/format";
import { fit } from "../core/measure";
import { now } from "../core/now";
import { type Place, href } from "../core/places";
import { BOX_H, BOX_W, type Box, type Fold, type Graph, type Layout, type Wire, hasBehind, layOut, neighbour, visible } from "../core/provgraph";
import { shapeOf } from "./icons";

export function placeOfNode(node: ProvenanceNode): Place {
  const only = node.paths?.length === 1 && node.files === 1 ? node.paths[0]! : "";
  return { page: "files", project: node.project!, repo: node.repo!, ref: node.commit!, path: only };
}

// What a commit is, in three lines.
export function wordsOf(node: ProvenanceNode, time: number): [string, string, string] {
  if (node.note) return ["not shown", name(node.note), ""];
  const files = node.paths ? (node.paths.length === 1 && node.files === 1 ? name(node.paths[0]!) : `${counted(node.files ?? 0, "file")}${node.more ? " and more" : ""}`) : counted(node.files ?? 0, "file");
  const made = node.job ? [node.job.version ? `version ${node.job.version}` : "", node.job.device === "gpu" ? "GPU" : ""].filter(Boolean).join(" · ") : node.author ? `by ${name(node.author)}` : "pushed";
  return [name(node.repo ?? ""), files, [made, node.created_us ? age(node.created_us, time) : "", short(node.commit ?? "")].filter(Boolean).join(" · ")];
}

function related(layout: Layout, key: string): Set<string> {
  const found = new Set([key]);
  for (const [near, far] of [["from", "to"], ["to", "from"]] as const) {
    const queue = [key];
    const seen = new Set(queue);
    for (let at = queue.pop(); at !== undefined; at = queue.pop()) {
      for (const wire of layout.wires) {
        if (wire[near] !== at || seen.has(wire[far])) continue;
        seen.add(wire[far]);
        found.add(wire[far]);
        queue.push(wire[far]);
      }
    }
  }
  return found;
}

function WirePath({ wire, tone, dim }: { wire: Wire; tone: string; dim: boolean }) {
  const [x, y] = wire.points[wire.points.length - 1]!;
  return (
    <g class={dim ? "dim" : ""}>
      {wire.inputs.length > 0 && <title>{wire.inputs.map(name).join(", ")}</title>}
      <path class={`edge ${tone}`} d={rounded([...wire.points.slice(0, -1), [x - 6, y]])} />
      <path class={`head ${tone}`} d={`M${x} ${y}l-7 -4v8z`} />
    </g>
  );
}

function CommitBox({ box, root, events }: { box: Box; root: boolean; events: object }) {
  const { node, x, y } = box;
  const words = wordsOf(node, now.value);
  const [title, files, made] = [fit(words[0], 140, 600, 13), fit(words[1], BOX_W - 20), fit(words[2], BOX_W - 20)];
  const body = (
    <>
      <rect class={`${node.job ? "box" : "pill"} ${root ? "hot" : ""}`} x={x} y={y} width={BOX_W} height={BOX_H} rx={node.job ? 6 : 20} />
      <svg x={x + 10} y={y + 8} width="16" height="16" viewBox="0 0 16 16" class={`i ${node.job ? "" : "data-c"}`}>{shapeOf(node.note ? "not" : node.job ? "stage" : "repo")}</svg>
      <text class="name" x={x + 32} y={y + 21}>{title}</text>{" "}
      <text x={x + 10} y={y + 41}>{files}</text>{" "}
      <text class="tiny" x={x + 10} y={y + 59}>{made}</text>
    </>
  );
  const label = `${[title, files, made].filter(Boolean).join(" ")}${root ? ", asked about" : ""}`;
  return node.note ? <g role="note" aria-label={words.join(" ")}>{body}</g> : <a href={href(placeOfNode(node))} aria-label={label} data-node={node.key} {...events}>{body}</a>;
}

// A round button at the box's far side, which hides or shows what is behind it.
function Toggle({ box, closed, act }: { box: Box; closed: boolean; act: () => void }) {
  const x = box.x + (box.node.level < 0 ? 0 : BOX_W);
  const y = box.y + BOX_H;
  const press = (event: KeyboardEvent) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    act();
  };
  return (
    <g class="toggle" role="button" tabIndex={0} aria-expanded={!closed} aria-label={`${closed ? "Show" : "Hide"} what is behind ${name(box.node.repo ?? "")} ${short(box.node.commit ?? "")}`} onClick={act} onKeyDown={press}>
      <rect class="hit" x={x - 12} y={y - 12} width="24" height="24" />
      <circle class="port" cx={x} cy={y} r="8" />
      <path class="sign" d={closed ? `M${x - 4} ${y}h8M${x} ${y - 4}v8` : `M${x - 4} ${y}h8`} />
    </g>
  );
}

function FoldButton({ fold, act }: { fold: Fold; act: () => void }) {
  const words = `… and ${number(fold.level.commits - fold.level.shown)} more`;
  return (
    <g class="toggle" role="button" tabIndex={0} aria-label={`${words} commits`} onClick={act} onKeyDown={(event: KeyboardEvent) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); act(); } }}>
      <rect class="box more" x={fold.x} y={fold.y} width={BOX_W} height="28" rx="6" />
      <text x={fold.x + BOX_W / 2} y={fold.y + 18} text-anchor="middle">{words}</text>
    </g>
  );
}

export function ProvenanceGraph({ graph, more }: { graph: Graph; more: (fold: Fold) => void }) {
  const [closed, setClosed] = useState<ReadonlySet<string>>(new Set());
  const [focus, setFocus] = useState<string | null>(null);
  const place = useRef<SVGSVGElement>(null);
  const layout = useMemo(() => layOut(graph, visible(graph, closed)), [graph, closed]);
  const hot = focus ? related(layout, focus) : null;
  const dim = (key: string) => hot !== null && !hot.has(key);
  const toggle = (key: string) => setClosed((before) => { const next = new Set(before); if (!next.delete(key)) next.add(key); return next; });
  // the commit that was asked about is in sight
  useEffect(() => {
    const box = place.current?.parentElement;
    const root = layout.boxes.find((one) => one.node.key === graph.root);
    if (box && root) box.scrollLeft = root.x - (box.clientWidth - BOX_W) / 2;
  }, [graph.root]);
  const events = (key: string) => ({
    onPointerEnter: () => setFocus(key), onPointerLeave: () => setFocus(null), onFocus: () => setFocus(key), onBlur: () => setFocus(null),
    onKeyDown: (event: KeyboardEvent) => {
      const next = neighbour(layout, key, event.key);
      if (!next) return;
      event.preventDefault();
      [...(place.current?.querySelectorAll<SVGAElement>("a[data-node]") ?? [])].find((one) => one.getAttribute("data-node") === next)?.focus();
    },
  });
  const boxes = [...layout.boxes].sort((a, b) => a.x - b.x || a.y - b.y);
  return (
    <div class="graph-scroll panel">
      <svg ref={place} class="g sized" viewBox={`0 0 ${layout.w} ${layout.h}`} width={layout.w} height={layout.h} role="group" aria-label="Graph of what came from what">
        {layout.wires.map((wire) => <WirePath key={`${wire.from} ${wire.to}`} wire={wire} tone={hot?.has(wire.from) && hot.has(wire.to) ? "hot" : ""} dim={dim(wire.from) || dim(wire.to)} />)}
        {boxes.map((box) => (
          <g key={box.node.key} class={dim(box.node.key) ? "dim" : ""}>
            <CommitBox box={box} root={box.node.key === graph.root} events={events(box.node.key)} />
            {box.node.key !== graph.root && hasBehind(graph, box.node.key) && <Toggle box={box} closed={closed.has(box.node.key)} act={() => toggle(box.node.key)} />}
          </g>
        ))}
        {layout.folds.map((fold) => <FoldButton key={fold.level.level} fold={fold} act={() => more(fold)} />)}
      </svg>
    </div>
  );
}
