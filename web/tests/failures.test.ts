import { describe, expect, it } from "vitest";
import { type Failure, alike, endOf, lineThatMatters, pathOfDatum, waysOf } from "../src/core/failures";

describe("the line that matters", () => {
  it.each([
    ["Traceback (most recent call last):\n  File \"x.py\", line 3, in <module>\nValueError: cannot identify\n", "ValueError: cannot identify", 2],
    ["reading\nPIL.UnidentifiedImageError: cannot identify image file 'a'\ncleaning up\n", "PIL.UnidentifiedImageError: cannot identify image file 'a'", 1],
    ["one\ntwo\nthree\n\n", "three", 2],
    ["", "", 0],
  ])("of %j is %j", (tail, line, at) => expect(lineThatMatters(tail)).toEqual({ line, at }));
});

describe("messages are alike", () => {
  it.each([
    ["cannot identify image file '/pfs/photos/lisbon/IMG_20931.jpg'", "cannot identify image file '/pfs/photos/porto/a.jpg'"],
    ["MemoryError: 123,456 bytes", "MemoryError: 99 bytes"],
    ["object at 0x7f01deadbeef", "object at 0x7f01cafebabe"],
    ["no such file: /a/b.txt", "no such file: /c.txt"],
  ])("%s", (a, b) => expect(alike(a)).toBe(alike(b)));
  it("keeps what differs in words", () => expect(alike("KeyError: label")).not.toBe(alike("KeyError: path")));
});

describe("ways to fail", () => {
  const failure = (path: string, line: string, bytes = 0): Failure => ({ id: path, paths: `photos=${path}`, reason: "exit code 1", line, bytes, node: "cpu-01" });
  const ways = waysOf([failure("/lisbon/a.jpg", "ValueError: no image '/a'"), failure("/lisbon/b/c.jpg", "ValueError: no image '/b'"), failure("/porto/x.jpg", "MemoryError: 5 bytes", 9)]);
  it("are sorted by how many they are", () => expect(ways.map((way) => [way.kind, way.failures.length])).toEqual([["ValueError", 2], ["MemoryError", 1]]));
  it("say what they have in common", () => expect(ways[0]!.common).toEqual(["all below /lisbon/", "all inputs are empty", "all on cpu-01"]));
  it("a single failure has nothing in common", () => expect(ways[1]!.common).toEqual([]));
  it("names the path of a datum", () => expect(pathOfDatum("model=/, test=/b1.csv")).toBe("/b1.csv"));
});

describe("how an attempt ended", () => {
  const attempt = { state: "failed", exit_code: 1, signal: 0, oom: false, timed_out: false, reason: "" };
  it.each([[{ ...attempt }, "exit code 1"], [{ ...attempt, signal: 9 }, "ended by signal 9"], [{ ...attempt, reason: "killed: used 4.0 GiB of memory limit 4Gi", oom: true }, "killed: used 4.0 GiB of memory limit 4Gi"], [{ ...attempt, state: "success", exit_code: 0 }, "done"]])(
    "%j", (given, words) => expect(endOf(given)).toBe(words));
});
