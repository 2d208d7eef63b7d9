// Files into one commit: it is opened, each file is put, and it is finished. After a failure it goes on with the files that are left.
import { BASE, address, post, request } from "../api/client";

export interface Picked {
  path: string; // below the folder that was chosen or dropped
  file: File;
}

export interface Target {
  project: string;
  repo: string;
  branch: string;
  folder: string; // "" or "a/b"
  message: string;
}

const AT_ONCE = 4;
const KEPT_MAX = 20_000; // files that are remembered as put; further ones are put again after a reload

// What was put into an open commit, kept by the browser, so that a push goes on after the page was loaded again: the files are dropped
// once more, and only those that are missing or have changed are sent.
export interface Begun {
  target: Target;
  commit: string;
  put: Record<string, string>; // path → size and time of the file that was put
}

const markOf = (file: File) => `${file.size} ${file.lastModified}`;
const keyOf = (project: string, repo: string) => `pipelined.push ${BASE} ${project}/${repo}`;

export function remembered(files: Picked[]): Record<string, string> {
  return Object.fromEntries(files.slice(0, KEPT_MAX).map((one) => [one.path, markOf(one.file)]));
}

export function left(files: Picked[], put: Record<string, string>): Picked[] {
  return files.filter((one) => put[one.path] !== markOf(one.file));
}

export function bytesOf(files: Picked[]): number {
  return files.reduce((sum, one) => sum + one.file.size, 0);
}

// The push into this repo that was not finished, if the browser keeps one.
export function begunPush(project: string, repo: string): Begun | null {
  try {
    const begun = JSON.parse(localStorage.getItem(keyOf(project, repo)) ?? "null") as Begun | null;
    return begun?.commit && begun.target && begun.put ? begun : null;
  } catch {
    return null;
  }
}

export function forgetPush(project: string, repo: string): void {
  try {
    localStorage.removeItem(keyOf(project, repo));
  } catch {
    // this browser keeps nothing
  }
}

export class Upload {
  done = 0;
  doneBytes = 0;
  commit = "";
  halted = false; // the page was left, or the push was thrown away: nothing more is sent
  readonly bytes: number;
  private readonly left: Set<Picked>;
  private put_: Picked[] = [];
  private savedAt = 0;
  private dropped = false;
  private readonly stop = new AbortController();

  constructor(readonly target: Target, readonly files: Picked[], private readonly changed: () => void, private readonly begun: Begun | null = null) {
    const todo = begun ? left(files, begun.put) : files;
    this.left = new Set(todo);
    this.commit = begun?.commit ?? "";
    this.bytes = bytesOf(files);
    this.done = files.length - todo.length;
    this.doneBytes = this.bytes - bytesOf(todo);
  }

  // Writes down what was put; at most once a second, for the list may be long.
  private save(now = false): void {
    if (this.dropped || (!now && performance.now() - this.savedAt < 1000)) return;
    this.savedAt = performance.now();
    const begun: Begun = { target: this.target, commit: this.commit, put: { ...this.begun?.put, ...remembered(this.put_) } };
    try {
      localStorage.setItem(keyOf(this.target.project, this.target.repo), JSON.stringify(begun));
    } catch {
      // full, or it keeps nothing: after a reload the push begins anew
    }
  }

  private async put(one: Picked): Promise<void> {
    const { project, repo, folder } = this.target;
    const path = [folder, one.path].filter(Boolean).join("/");
    const url = address("/api/v1/repos/{project}/{repo}/open/{commit}/files/{path}", { project, repo, commit: this.commit, path });
    await request(url, { method: "PUT", headers: { "Content-Type": "application/octet-stream" }, body: one.file, signal: this.stop.signal });
    this.left.delete(one);
    this.put_.push(one);
    this.save();
    this.done++;
    this.doneBytes += one.file.size;
    this.changed();
  }

  // Sends what is left, and finishes the commit; called again after a failure. Returns the commit's id. After a failure no further file
  // is begun, and it is told when nothing is on its way any more.
  async send(): Promise<string> {
    const { project, repo, branch, message } = this.target;
    if (!this.commit) {
      const open = await post("/api/v1/repos/{project}/{repo}/branches/{branch}/open", { project, repo, branch }, { message });
      this.commit = open.id;
    }
    this.save(true);
    const queue = [...this.left].values(); // of all workers
    const failures: unknown[] = [];
    const work = async () => {
      for (const one of queue) {
        if (failures.length > 0) return;
        await this.put(one).catch((error: unknown) => failures.push(error));
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    this.save(true);
    if (failures.length > 0) throw failures[0];
    await post("/api/v1/repos/{project}/{repo}/open/{commit}/finish", { project, repo, commit: this.commit }, { message });
    forgetPush(project, repo);
    return this.commit;
  }

  // Sends no more; the push can be gone on with.
  halt(): void {
    this.halted = true;
    this.stop.abort();
  }

  // Throws away what was put.
  async drop(): Promise<void> {
    const { project, repo } = this.target;
    this.dropped = true;
    this.halt();
    forgetPush(project, repo);
    if (!this.commit) return;
    await request(address("/api/v1/repos/{project}/{repo}/commits/{ref}", { project, repo, ref: this.commit }), { method: "DELETE" });
    this.commit = "";
  }
}

// Throws away what was put into an interrupted push, unless it has been finished or thrown away elsewhere.
export async function dropBegun(begun: Begun): Promise<void> {
  if (begunPush(begun.target.project, begun.target.repo)?.commit !== begun.commit) return;
  await new Upload(begun.target, [], () => {}, begun).drop().catch(() => {});
}

// What was dropped, folders with all that is in them.
export async function filesDropped(transfer: DataTransfer): Promise<Picked[]> {
  const out: Picked[] = [];
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter((entry) => entry != null);
  const walk = async (entry: FileSystemEntry, below: string): Promise<void> => {
    if (entry.isFile) {
      const file = await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject));
      out.push({ path: below + entry.name, file });
      return;
    }
    const reader = (entry as FileSystemDirectoryEntry).createReader();
    for (;;) {
      const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
      if (some.length === 0) return;
      for (const one of some) await walk(one, `${below}${entry.name}/`);
    }
  };
  for (const entry of entries) await walk(entry, "");
  return out;
}

export function filesPicked(list: FileList): Picked[] {
  return [...list].map((file) => ({ path: file.webkitRelativePath || file.name, file }));
}
