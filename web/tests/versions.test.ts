import { describe, expect, it } from "vitest";
import { againWords, byLines, changeWords, diffSentence, fieldAgain, fieldsOf, markedLines, originSentence, valueText, whoOf } from "../src/core/versions";

describe("what a version changed", () => {
  it.each([
    [{ stages: 3, new: 3, changed: 0, removed: 0 }, "3 stages new"],
    [{ stages: 3, new: 1, changed: 2, removed: 1 }, "1 stage new, 2 changed, 1 removed"],
    [{ stages: 3, new: 0, changed: 0, removed: 0 }, "no stage changed"],
  ])("%o: %s", (version, words) => expect(changeWords(version)).toBe(words));
  it("names who without the address", () => expect([whoOf("Ada <ada@example.org>"), whoOf("bob"), whoOf("")]).toEqual(["Ada", "bob", ""]));
});

const version = (n: number) => ({ version: n, created_us: 0, current: false, filename: "", by: "", message: "", run: "", stages: 1, new: 0, changed: 0, removed: 0 });

describe("what differs between two versions", () => {
  it.each([
    [[], "No stage differs between version 1 and version 2."],
    [[{ stage: "a", change: "changed", again: "none" }], "1 stage differs between version 1 and version 2; nothing runs anew."],
    [[{ stage: "a", change: "changed", again: "all" }, { stage: "b", change: "unchanged", again: "some" }], "1 stage differs between version 1 and version 2; all datums of a run anew, and some of b."],
    [[{ stage: "a", change: "changed", again: "some" }, { stage: "b", change: "removed" }], "2 stages differ between version 1 and version 2; some datums of a run anew."],
    [["a", "b", "c", "d"].map((stage) => ({ stage, change: "new", again: "all" })), "4 stages differ between version 1 and version 2; all datums of 4 stages run anew."],
  ])("%#", (stages, sentence) => expect(diffSentence({ from: version(1), to: version(2), stages })).toBe(sentence));
  it("the first version is compared with nothing", () => expect(diffSentence({ to: version(1), stages: [{ stage: "a", change: "new", again: "all" }] })).toBe("1 stage differs between nothing and version 1; all datums of a run anew."));
  it("says what a field does", () => expect(["all", "some", "none"].map(fieldAgain)).toEqual(["runs all anew", "may run some anew", "runs nothing anew"]));
  it("says what runs of a stage", () => expect([againWords("all"), againWords(undefined)]).toEqual(["all its datums run anew", ""]));
});

describe("a value", () => {
  it.each([["a", '"a"'], [1, "1"], [false, "false"], [["x", "y"], '["x","y"]'], [undefined, undefined], ["#!/bin/sh\necho", "#!/bin/sh\necho"]])("%o", (value, text) => expect(valueText(value)).toBe(text));
  it("of many elements goes over lines", () => expect(valueText(Array.from({ length: 60 }, (_, i) => i))).toContain("\n"));
  it("over lines is compared by lines, if there are two", () => {
    expect(byLines({ field: "script", before: "a\nb", after: "a", again: "all" })).toBe(true);
    expect(byLines({ field: "script", after: "a\nb", again: "all" })).toBe(false);
    expect(byLines({ field: "workers", before: 1, after: 2, again: "none" })).toBe(false);
  });
});

describe("the fields of an effective spec", () => {
  const spec = { cache: true, env: { "A B": "1", C: "2", "q\"\n": "3" }, input: { cross: [{ repo: "r" }, { repo: "q" }] }, run: ["x"], output: {} };
  const origins = { cache: "language", 'env["A B"]': "project", "env.C": "stage", 'env["q\\"\\u000a"]': "project", "input.cross[0].repo": "stage", "input.cross[1].repo": "spec", run: "stage", output: "unknown" };
  const fields = fieldsOf(spec, origins);
  it("come with their origins, what is written first", () => {
    expect(fields.map((field) => `${field.path}=${field.value} ${field.origin}`)).toEqual([
      'env.C="2" stage', 'input.cross[0].repo="r" stage', 'run=["x"] stage', 'input.cross[1].repo="q" spec', 'env["A B"]="1" project', 'env["q\\"\\u000a"]="3" project', "cache=true language", "output={} unknown"]);
  });
  it("are counted", () => expect(originSentence(fields)).toBe("3 fields are written here, 1 from the spec's defaults, 2 from the project's, 1 from the language, 1 from a default that is not recorded."));
  it("are none without origins", () => expect(fieldsOf(spec, {})).toEqual([]));
  it("with the names of Object's own members are no origins", () => expect(fieldsOf({ constructor: 1, toString: 2 }, {})).toEqual([]));
});

describe("the lines around a mistake", () => {
  const problem = { first: 2, line: 3, mark: 3, lines: ["a", "ä😀x!", ""] };
  it("have the character marked, counted as the daemon does", () => {
    expect(markedLines(problem)[1]).toEqual({ number: 3, before: "ä😀", mark: "x", after: "!", meant: true });
    expect(markedLines(problem)[0]).toEqual({ number: 2, before: "a", mark: "", after: "", meant: false });
  });
  it("mark the end of a line, too", () => expect(markedLines({ ...problem, mark: 5 })[1]).toMatchObject({ before: "ä😀x!", mark: " ", after: "" }));
});
