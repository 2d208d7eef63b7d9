// Asks before what failed is tried again, and goes to the run that does it.
import { post } from "../api/client";
import { middle } from "../core/foreign";
import { counted } from "../core/format";
import { go } from "../core/going";
import { pathOf } from "../core/places";
import type { Job } from "../api/schema";
import type { GroupRetry, Retry } from "../core/runs";
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

async function againGroup(retry: GroupRetry, job: Job): Promise<void> {
  const made = await post("/api/v1/jobs/{project}/{stage}/{run}/retry", { project: job.project, stage: job.stage, run: job.run }, { group: retry.group.id });
  go(pathOf({ page: "run", run: made.run }));
}

// Asks before the datums of one group are tried again.
export function GroupRetryDialog({ retry, job, close }: { retry: GroupRetry; job: Job; close: () => void }) {
  return (
    <Confirm title={`Retry ${counted(retry.group.count, "datum")} of run ${job.run.slice(0, 8)}?`} doIt={`Retry ${counted(retry.group.count, "datum")}`} leave="Leave it" close={close} act={() => againGroup(retry, job)}>
      <p>{middle(retry.group.message, 200)}</p>
      <p>{retry.what}</p>
      <Command text={retry.command} />
    </Confirm>
  );
}
