// Pushing files from the browser: a button, and an area to drop files and folders on; both ask before anything is sent.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Repo } from "../api/schema";
import { name } from "../core/foreign";
import { counted, size } from "../core/format";
import { go } from "../core/going";
import { pathOf } from "../core/places";
import { type Picked, type Target, Upload, begunPush, bytesOf, dropBegun, filesDropped, filesPicked, left } from "../core/upload";
import { Act, OfflineNote } from "./act";
import { Bar } from "./bar";
import { Dialog } from "./dialog";
import { Icon } from "./icons";
import { ErrorNote } from "./page";
import { Command } from "./words";

type Where = Pick<Repo, "project" | "name"> & { branch?: string };

// A push into the repo that was interrupted goes on: it keeps its folder, message and commit.
function PushDialog({ repos, folder, files, close }: { repos: Where[]; folder: string; files: Picked[]; close: () => void }) {
  const [at, setAt] = useState(0);
  const repo = repos[at]!;
  const [begun, setBegun] = useState(() => begunPush(repo.project, repo.name));
  const [into, setInto] = useState(folder);
  const [message, setMessage] = useState("");
  const [picked, setPicked] = useState(files);
  const [error, setError] = useState<Error | null>(null);
  const [, redraw] = useState(0);
  const upload = useRef<Upload | null>(null);
  const [busy, setBusy] = useState(false);
  const bytes = bytesOf(picked);
  useEffect(() => () => upload.current?.halt(), []);
  const choose = (next: number) => {
    setAt(next);
    setBegun(begunPush(repos[next]!.project, repos[next]!.name));
  };
  const send = async () => {
    const target: Target = { project: repo.project, repo: repo.name, branch: repo.branch || "master", folder: into.replace(/^\/+|\/+$/g, ""), message };
    const mine = (upload.current ??= new Upload(begun?.target ?? target, picked, () => redraw((n) => n + 1), begun));
    setBusy(true);
    setError(null);
    try {
      const commit = await mine.send();
      if (mine.halted) return;
      close();
      go(pathOf({ page: "files", project: repo.project, repo: repo.name, ref: commit, path: mine.target.folder }));
    } catch (failed) {
      setError(failed instanceof Error ? failed : new Error(String(failed)));
      setBusy(false);
    }
  };
  const leave = () => {
    void upload.current?.drop().catch(() => {});
    close();
  };
  const sending = upload.current;
  const todo = begun && !sending ? left(picked, begun.put).length : 0;
  return (
    <Dialog title={`Push files to ${name(repo.name)}`} close={busy ? () => {} : leave} wide>
      {begun && !sending && (
        <div class="note">
          <p>A push of {counted(Object.keys(begun.put).length, "file")} was interrupted. Of the files below, {counted(todo, "file")} {todo === 1 ? "is" : "are"} missing or changed: only those are sent.</p>
          <p class="acts"><Act small onClick={() => { void dropBegun(begun); setBegun(null); }}>Throw it away</Act></p>
        </div>)}
      {!sending && (
        <>
          {repos.length > 1 && <label class="field">Repo<select value={at} onChange={(event) => choose(Number(event.currentTarget.value))}>{repos.map((one, i) => <option key={i} value={i}>{one.project}/{one.name}</option>)}</select></label>}
          <label class="field">Folder<input value={begun?.target.folder ?? into} disabled={begun !== null} placeholder="/" onInput={(event) => setInto(event.currentTarget.value)} /></label>
          <label class="field">Message<input value={begun?.target.message ?? message} disabled={begun !== null} onInput={(event) => setMessage(event.currentTarget.value)} /></label>
          <p class="acts">
            <label class="btn small">Choose files<input class="visually-hidden" type="file" multiple onChange={(event) => event.currentTarget.files && setPicked([...picked, ...filesPicked(event.currentTarget.files)])} /></label>
            <label class="btn small">Choose a folder<input class="visually-hidden" type="file" {...{ webkitdirectory: true }} onChange={(event) => event.currentTarget.files && setPicked([...picked, ...filesPicked(event.currentTarget.files)])} /></label>
          </p>
        </>)}
      <p><b>{counted(picked.length, "file")}, {size(bytes)}</b>{picked.length > 0 && <span class="muted"> · {picked.slice(0, 3).map((one) => name(one.path)).join(", ")}{picked.length > 3 ? " …" : ""}</span>}</p>
      {sending && (
        <div role="status"><Bar pieces={[{ of: "run", share: sending.bytes ? sending.doneBytes / sending.bytes : sending.done / Math.max(1, picked.length) }]} label="Progress" />
          <p class="small muted after">{sending.done} of {counted(picked.length, "file")}, {size(sending.doneBytes)} of {size(sending.bytes)}</p></div>)}
      {error && <ErrorNote error={error} />}
      <OfflineNote />
      {!sending && <Command text={`pipelinectl put file ${repo.project === "default" ? "" : `${repo.project}/`}${repo.name}@${repo.branch || "master"}:/${into.replace(/^\/+/, "")} -r -f FOLDER`} />}
      <div class="acts">
        <button type="button" class="btn" autofocus disabled={busy} onClick={leave}>Leave it</button>
        <Act main disabled={busy || picked.length === 0} onClick={() => void send()}>{busy ? "Pushing…" : error ? "Go on with what is left" : `Push ${counted(picked.length, "file")}`}</Act>
      </div>
    </Dialog>
  );
}

export function UploadButton({ repos, folder = "", children = "Push files…" }: { repos: Where[]; folder?: string; children?: ComponentChildren }) {
  const [open, setOpen] = useState(false);
  return (
    <>
      <Act main onClick={() => setOpen(true)}><Icon of="up" />{children}</Act>
      {open && <PushDialog repos={repos} folder={folder} files={[]} close={() => setOpen(false)} />}
    </>
  );
}

export function DropArea({ repo, folder }: { repo: Where; folder: string }) {
  const [files, setFiles] = useState<Picked[] | null>(null);
  const [begun, setBegun] = useState(() => begunPush(repo.project, repo.name));
  const [over, setOver] = useState(false);
  const drop = async (event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    if (event.dataTransfer) setFiles(await filesDropped(event.dataTransfer));
  };
  return (
    <>
      <div class={`drop ${over ? "over" : ""}`} onDragOver={(event) => { event.preventDefault(); setOver(true); }} onDragLeave={() => setOver(false)} onDrop={(event) => void drop(event)}>
        Drop files or folders here to push them{folder ? ` into /${name(folder)}` : ""}
      </div>
      {begun && !files && (
        <div class="note" role="status">
          <p>A push of {counted(Object.keys(begun.put).length, "file")} into /{name(begun.target.folder)} was interrupted. Choose or drop the same files again to go on with it.</p>
          <p class="acts">
            <label class="btn small">Choose the folder again<input class="visually-hidden" type="file" {...{ webkitdirectory: true }} onChange={(event) => event.currentTarget.files && setFiles(filesPicked(event.currentTarget.files))} /></label>
            <label class="btn small">Choose the files again<input class="visually-hidden" type="file" multiple onChange={(event) => event.currentTarget.files && setFiles(filesPicked(event.currentTarget.files))} /></label>
            <Act small onClick={() => { void dropBegun(begun); setBegun(null); }}>Throw it away</Act>
          </p>
        </div>)}
      {files && <PushDialog repos={[repo]} folder={folder} files={files} close={() => { setFiles(null); setBegun(begunPush(repo.project, repo.name)); }} />}
    </>
  );
}
