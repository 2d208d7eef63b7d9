// Where a file came from, read out of the tree that the daemon gives.
import type { WhyNode } from "../api/schema";
import { counted } from "./format";

export interface Facts {
  sources: WhyNode[]; // files that were pushed, each once
  stages: { stage: string; run: string; code: string; reused: boolean; git: string }[]; // each stage of each run once
  more: boolean; // the daemon left something out
}

const keyOf = (node: WhyNode) => `${node.project}/${node.repo}@${node.commit}:${node.path}`;

// A node that stands for an input of several files: it has no stage of its own, but its files are below it.
export function isGroup(node: WhyNode): boolean {
  return !node.stage && (node.inputs?.length ?? 0) > 0;
}

export function factsOf(root: WhyNode): Facts {
  const sources = new Map<string, WhyNode>();
  const stages = new Map<string, Facts["stages"][number]>();
  let more = false;
  const walk = (node: WhyNode) => {
    more ||= Boolean(node.more);
    if (node.stage) {
      const key = `${node.project}/${node.stage}`;
      const git = (node.git as { head?: string } | null | undefined)?.head ?? "";
      if (!stages.has(key)) stages.set(key, { stage: node.stage, run: node.run ?? "", code: node.code ?? "", reused: Boolean(node.reused), git });
    } else if (!isGroup(node) && node.path) sources.set(keyOf(node), node);
    for (const input of node.inputs ?? []) walk(input);
  };
  walk(root);
  return { sources: [...sources.values()], stages: [...stages.values()], more };
}

export function sentence(file: string, facts: Facts): string {
  const files = facts.sources.length;
  if (facts.stages.length === 0) return `${file} was pushed.`;
  return `${file} came from ${counted(files, "file")}${facts.more ? " and more" : ""} that ${files === 1 ? "was" : "were"} pushed, by ${counted(facts.stages.length, "stage")}.`;
}
