import { describe, expect, it } from "vitest";
import { datumWords, isWaiting, jobState, runState, stateOf } from "../src/core/states";

const filled = (state: string, counts: ReturnType<typeof datums>, reason = "") => ({ state, reason, datums: counts });
const datums = (done: number, reused: number, failed: number, total = done + reused + failed) => ({ done, reused, failed, total });

describe("words of states", () => {
  it.each([["created", "Waiting"], ["starting", "Starting"], ["running", "Running"], ["finishing", "Finishing"], ["success", "Done"], ["failure", "Failed"], ["killed", "Stopped"], ["unrunnable", "Not run"], ["new-one", "new-one"]])(
    "%s is %s", (state, word) => expect(stateOf(state).word).toBe(word));
  it("never calls a job done of which datums failed", () => expect(jobState(filled("success", datums(11, 0, 4)))).toEqual({ word: "4 failed", shape: "part" }));
  it("says that a job waits when its reason does", () => {
    expect(isWaiting(filled("starting", datums(0, 0, 0, 1), "waiting for 2 GPUs per worker: the executor offers 0"))).toBe(true);
    expect(jobState(filled("starting", datums(0, 0, 0, 1), "waiting for 2 GPUs")).word).toBe("Waiting");
    expect(isWaiting(filled("running", datums(0, 0, 0, 1), "running on 1 worker"))).toBe(false);
    expect(isWaiting(filled("failure", datums(0, 0, 1), "waiting"))).toBe(false);
  });
  it("says of a run what its jobs lost", () => {
    expect(runState({ state: "success" }, [filled("success", datums(1, 0, 0)), filled("success", datums(0, 0, 412))]).word).toBe("Done, 412 failed");
    expect(runState({ state: "killed", superseded_by: "c41d7e90aaaa" }, []).word).toBe("Superseded by c41d7e90");
  });
  it("counts datums", () => {
    expect(datumWords(datums(1, 7, 0), true)).toBe("1 ran · 7 reused · 0 failed");
    expect(datumWords(datums(3, 1, 0, 120), false)).toBe("4 of 120 datums");
  });
});
