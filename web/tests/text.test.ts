import { describe, expect, it } from "vitest";
import { EventParser } from "../src/api/sse";
import { diffLines, folded } from "../src/core/linediff";
import { isBad } from "../src/core/log";
import { isBinary, kindOf, prettyJson } from "../src/core/preview";
import { describe as column, parseTable } from "../src/core/table";
import { RowHeights } from "../src/core/heights";
import { restOf, windowOf } from "../src/parts/rows";

const bytes = (text: string) => new TextEncoder().encode(text);

describe("tables", () => {
  it("reads quotes, doubled quotes and line ends of both kinds", () =>
    expect(parseTable('a,b\r\n"x, ""y""\n2",3\n', ",", true)).toEqual({ columns: ["a", "b"], rows: [['x, "y"\n2', "3"]], whole: true }));
  it("leaves the last line out when the text is cut", () => expect(parseTable("a,b\n1,2\n3,", ",", false)!.rows).toEqual([["1", "2"]]));
  it("takes a last line without an end", () => expect(parseTable("a,b\n1,2", ",", true)!.rows).toEqual([["1", "2"]]));
  it("is none of one column", () => expect(parseTable("just\ntext\n", ",", true)).toBeNull());
  it("stops at 5,000 rows", () => expect(parseTable(`a,b\n${"1,2\n".repeat(9000)}`, ",", true)!.whole).toBe(false));
  it("cuts a cell at 4 KiB", () => expect(parseTable(`a,b\n${"x".repeat(9999)},1\n`, ",", true)!.rows[0]![0]).toHaveLength(4097));
  it("says what a column holds", () => {
    expect(column([["0"], ["5"], ["9"]], 0).words).toBe("0 – 9");
    expect(column([["a"], ["a"]], 0)).toEqual({ numbers: false, words: "1 value", bins: [] });
  });
});

describe("previews", () => {
  it.each([["a.csv", "a,b\n", "table"], ["a.json", "{}", "json"], ["a.txt", "text", "text"], ["a.html", "<script>", "text"], ["a.svg", "<svg>", "picture"], ["a.png", "\u0000", "picture"], ["a.npz", "PK\u0000", "none"], ["README", "hi", "text"]])(
    "%s of %j is a %s", (path, content, kind) => expect(kindOf(path, bytes(content))).toBe(kind));
  it("takes UTF-8 for text, and Latin-1 not for binary", () => {
    expect(isBinary(bytes("größe 日本"))).toBe(false);
    expect(isBinary(new Uint8Array([0xff, 0xfe, 0xfd, 0xfc]))).toBe(true);
  });
  it("writes JSON over lines, and says when it is none", () => {
    expect(prettyJson('{"a":[1]}')).toBe('{\n  "a": [\n    1\n  ]\n}');
    expect(prettyJson('[{},[],{"b:,":"\\"}"}]')).toBe('[\n  {},\n  [],\n  {\n    "b:,": "\\"}"\n  }\n]');
    expect(prettyJson("[12345678901234567890, 1.0, 1e400]")).toBe("[\n  12345678901234567890,\n  1.0,\n  1e400\n]");
    expect(prettyJson("{broken")).toBeNull();
    expect(prettyJson("[".repeat(100) + "]".repeat(100))).toBeNull();
  });
});

describe("line diffs", () => {
  const shape = (a: string, b: string) => diffLines(a, b)!.map((line) => ({ same: " ", old: "-", new: "+" })[line.side] + line.text);
  it.each([["a\nb\nc\n", "a\nx\nc\n", [" a", "-b", "+x", " c"]], ["", "a\n", ["+a"]], ["a\n", "", ["-a"]], ["a\nb", "a\nb", [" a", " b"]], ["a\nb\nc", "b\nc\nd", ["-a", " b", " c", "+d"]]])("%j to %j", (a, b, lines) => expect(shape(a, b)).toEqual(lines));
  it("gives up where too much differs", () => expect(diffLines("x\n".repeat(5000) + "1", "y\n".repeat(5000) + "2")).toBeNull());
  it("folds what is equal", () => {
    const lines = diffLines("a\n".repeat(20) + "b\n" + "c\n".repeat(20), "a\n".repeat(20) + "B\n" + "c\n".repeat(20))!;
    expect(folded(lines).map((fold) => [fold.hidden, fold.lines.length])).toEqual([[17, 8], [17, 0]]);
  });
});

describe("logs", () => {
  it.each([["ok", false], ["Error: a", true], ["error b", true], ["ValueError: c", true], ["terror, mirrors, errors", false], ["IOException", true], ["", false]])("%s", (line, bad) => expect(isBad(line)).toBe(bad));
});

describe("event streams", () => {
  const whole = 'id: 7\nevent: job\ndata: {"a":\ndata: 1}\n\n: comment\n\nid: 8\r\nevent: run\r\ndata: {}\r\n\r\n';
  it("gives the same events however the stream is cut", () => {
    for (let cut = 0; cut <= whole.length; cut++) {
      const parser = new EventParser();
      const events = [...parser.push(whole.slice(0, cut)), ...parser.push(whole.slice(cut))];
      expect(events).toEqual([{ id: "7", type: "job", data: '{"a":\n1}' }, { id: "8", type: "run", data: "{}" }]);
    }
  });
  it("does not gather for ever", () => expect(() => new EventParser().push("x".repeat(5 << 20))).toThrow("too long"));
});

describe("rows near the view", () => {
  it.each([[50, 0, { from: 0, to: 50 }], [1_000_000, 0, { from: 0, to: 53 }], [1_000_000, -36_000, { from: 970, to: 1053 }], [1000, -36_000_000, { from: 970, to: 1000 }]])("of %d at %d are %j", (count, top, rows) =>
    expect(windowOf(count, new RowHeights(36), top, 800)).toEqual(rows));
  it("go by the heights that were measured", () => {
    const heights = new RowHeights(36);
    for (let i = 0; i < 100; i++) heights.set(i, 72);
    heights.set(0, 172);
    expect([heights.before(0), heights.before(1), heights.before(100)]).toEqual([0, 172, 7300]);
    expect(heights.usual).toBe(73);
    expect(heights.before(1100)).toBe(7300 + 1000 * 73);
    expect([heights.at(0, 1100), heights.at(171, 1100), heights.at(172, 1100), heights.at(7300, 1100), heights.at(1e9, 1100)]).toEqual([0, 0, 1, 100, 1100]);
    expect(windowOf(1100, heights, -7300, 730)).toEqual({ from: 70, to: 140 });
  });
  it("measure a row anew when it is drawn again", () => {
    const heights = new RowHeights(36);
    heights.set(3, 50);
    heights.set(3, 70);
    expect(heights.usual).toBe(70);
  });
});

describe("pages after the first", () => {
  const rest = { key: "k", from: "b", items: [3, 4], next: "c" };
  it("stay while they begin where the first one ends", () => expect(restOf(rest, "k", { items: [1, 2], next: "b" })).toBe(rest));
  it.each([["k", "a"], ["k", undefined], ["other", "b"]])("begin anew for %s after %s", (key, next) => expect(restOf(rest, key, { items: [1, 2], next })).toEqual({ key, from: next, items: [], next }));
});
