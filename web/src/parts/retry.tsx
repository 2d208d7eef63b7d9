// Asks before what failed is tried again, and goes to the run that does it.
import { post } from "../api/client";
import { go } from "../core/going";
import { pathOf } from "../core/places";
import type { Retry } from "../core/runs";
import { Confirm } from "./dialog";
import { Command } from "./words";

async function again(retry: Retry, run: string): Promise<void> {
  const { project, pipeline, stage } = retry.stage;
  const made = retry.rerun
    ? await post("/api/v1/runs/{run}/rerun", { run }, { failed: true })
    : await post("/api/v1/pipelines/{project}/{pipeline}/run", { project, pipeline }, { stage });
  go(pathOf({ page: "run", run: made.run }));
}

export function RetryDialog({ retry, run, close }: { retry: Retry; run: string; close: () => void }) {
  return (
    <Confirm title={`${retry.text} of run ${run.slice(0, 8)}?`} doIt={retry.text} leave="Leave it" close={close} act={() => again(retry, run)}>
      <p>{retry.what}</p>
      <Command text={retry.command} />
    </Confirm>
  );
}
