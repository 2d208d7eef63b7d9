import { describe, expect, test } from "vitest";
import { pieces, plain } from "../src/core/ansi";
import { LINE_PX, MAX_PX, drawnOf, forget, heightOf, lineOfHash, missing, scrollFor, topLine } from "../src/core/logview";

describe("the window of a log", () => {
  test.each([0, 1, 30, 1000, 400_000, 400_001, 25_000_000])("of %i lines: every scroll place draws what is seen, within the log", (total) => {
    const view = 600;
    const height = heightOf(total);
    for (let i = 0; i <= 50; i++) {
      const scrollTop = (i / 50) * Math.max(0, height - view);
      const drawn = drawnOf(scrollTop, total, view);
      const top = topLine(scrollTop, total, view);
      expect(drawn.from).toBeGreaterThanOrEqual(1);
      expect(drawn.to).toBeLessThanOrEqual(total);
      if (total === 0) continue;
      expect(drawn.from).toBeLessThanOrEqual(Math.floor(top) + 1);
      expect(drawn.to).toBeGreaterThanOrEqual(Math.min(total, Math.ceil(top + view / LINE_PX) - 1));
      expect(drawn.to - drawn.from).toBeLessThan(200);
      // the line at the upper edge lies at the scroll place
      expect(drawn.above + (top - (drawn.from - 1)) * LINE_PX).toBeCloseTo(scrollTop, 3);
      if (total * LINE_PX <= MAX_PX) expect(drawn.above + drawn.below + (drawn.to - drawn.from + 1) * LINE_PX).toBeCloseTo(height, 3);
    }
  });

  test.each([1000, 25_000_000])("of %i lines: the bar goes to a line and shows it", (total) => {
    for (const line of [0, 1, Math.floor(total / 3), total - 30]) expect(Math.abs(topLine(scrollFor(line, total, 600), total, 600) - line)).toBeLessThan(0.01);
  });

  test("the last line is seen at the end of the bar", () => {
    const drawn = drawnOf(MAX_PX - 600, 25_000_000, 600);
    expect(drawn.to).toBe(25_000_000);
  });

  test("what is missing is asked for in pages, up to what is there", () => {
    const have = new Set([1, 2, 3, 8]);
    expect(missing(have, 1, 3, 100)).toBeNull();
    expect(missing(have, 1, 20, 100)).toEqual({ line: 4, limit: 4 });
    expect(missing(have, 9, 20, 100)).toEqual({ line: 9, limit: 92 });
    expect(missing(have, 9, 20, 1000)).toEqual({ line: 9, limit: 200 });
    expect(missing(new Set<number>(), 1, 0, 0)).toBeNull();
  });

  test("lines far away are forgotten", () => {
    const lines = new Map(Array.from({ length: 1000 }, (_, i) => [i + 1, ""]));
    forget(lines, 500, 520, 100);
    expect(lines.size).toBeLessThan(100);
    expect(lines.has(510)).toBe(true);
    forget(lines, 1, 2, 100);
    expect(lines.has(510)).toBe(true);
  });

  test.each([["#L12", 12], ["#L0", 0], ["#L", 0], ["#Lx", 0], ["", 0], ["#L12x", 0], ["#L9999999999999999", 0]])("%s", (hash, line) => expect(lineOfHash(hash)).toBe(line));
});

describe("colours of a terminal", () => {
  test.each([
    ["plain", [["plain", ""]]],
    ["\u001b[31mred\u001b[0m not", [["red", "ansi-1"], [" not", ""]]],
    ["\u001b[1;32mbold green\u001b[22m green", [["bold green", "ansi-bold ansi-2"], [" green", "ansi-2"]]],
    ["\u001b[38;5;9mx\u001b[39my", [["x", "ansi-1"], ["y", ""]]],
    ["\u001b[38;2;1;31;4mz", [["z", ""]]],
    ["\u001b[48;5;31mbackground", [["background", ""]]],
    ["\u001b[2Ka\u001b[1Ab\u001b]0;title\u0007c\u001b(B", [["a", ""], ["b", ""], ["c\\x1b(B", ""]]],
    ["a\u202eb\u0000c", [["a\\u202eb\\x00c", ""]]],
    ["\u001b[<script>", [["\\x1b[<script>", ""]]],
    ["", []],
  ])("%j", (line, want) => expect(pieces(line).map((one) => [one.text, one.class])).toEqual(want));

  test("no class comes from the text", () => {
    for (const piece of pieces("\u001b[31;999;hidden;1m\u001b[99999999mx\u001b[m y")) expect(piece.class).toMatch(/^(ansi-(\d|bold|dim|line) ?)*$/);
    expect(plain("\u001b[31mred\u001b[0m!")).toBe("red!");
  });
});
