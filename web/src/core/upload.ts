// Files into one commit: it is opened, each file is put, and it is finished. After a failure it goes on with the files that are left.
import { address, post, request } from "../api/client";

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

export class Upload {
  done = 0;
  doneBytes = 0;
  commit = "";
  private left: Picked[];

  constructor(readonly target: Target, readonly files: Picked[], private readonly changed: () => void) {
    this.left = [...files];
  }

  get bytes(): number {
    return this.files.reduce((sum, one) => sum + one.file.size, 0);
  }

  private async put(one: Picked): Promise<void> {
    const { project, repo, folder } = this.target;
    const path = [folder, one.path].filter(Boolean).join("/");
    const url = address("/api/v1/repos/{project}/{repo}/open/{commit}/files/{path}", { project, repo, commit: this.commit, path });
    await request(url, { method: "PUT", headers: { "Content-Type": "application/octet-stream" }, body: one.file });
    this.left = this.left.filter((other) => other !== one);
    this.done++;
    this.doneBytes += one.file.size;
    this.changed();
  }

  // Sends what is left, and finishes the commit; called again after a failure. Returns the commit's id.
  async send(): Promise<string> {
    const { project, repo, branch, message } = this.target;
    if (!this.commit) {
      const open = await post("/api/v1/repos/{project}/{repo}/branches/{branch}/open", { project, repo, branch }, { message });
      this.commit = open.id;
    }
    const queue = [...this.left];
    const work = async () => {
      for (let one = queue.shift(); one; one = queue.shift()) await this.put(one);
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    await post("/api/v1/repos/{project}/{repo}/open/{commit}/finish", { project, repo, commit: this.commit }, { message });
    return this.commit;
  }

  // Throws away what was put.
  async drop(): Promise<void> {
    const { project, repo } = this.target;
    if (!this.commit) return;
    await request(address("/api/v1/repos/{project}/{repo}/commits/{ref}", { project, repo, ref: this.commit }), { method: "DELETE" });
    this.commit = "";
  }
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
