// How many files differ between two commits.
import { get } from "../api/client";
import { type Change, countChanges } from "./runs";

const COUNTED_MAX = 1000;

// null: it could not be counted.
export async function countDiff(project: string, repo: string, from: string, to: string, signal?: AbortSignal): Promise<Change | null> {
  try {
    const page = await get("/api/v1/repos/{project}/{repo}/diff", { path: { project, repo }, query: { from, to, limit: COUNTED_MAX }, signal });
    return countChanges(page.changes, Boolean(page.next));
  } catch {
    return null;
  }
}
