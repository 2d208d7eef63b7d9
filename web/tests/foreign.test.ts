import { describe, expect, it } from "vitest";
import { logLine, middle, name, text } from "../src/core/foreign";

describe("text of others", () => {
  it.each([
    ["plain.txt", "plain.txt"],
    ["<b>&amp;", "<b>&amp;"], // markup is text, and stays as it is
    ["invoice\u202etxt.exe", "invoice\\u202etxt.exe"],
    ["a\u0000b\u001b[31mc", "a\\x00b\\x1b[31mc"],
    ["zero\u200bwidth\ufeff", "zero\\u200bwidth\\ufeff"],
    ["line\u2028break", "line\\u2028break"],
    ["two\nlines\tand a tab", "two\\x0alines\\x09and a tab"],
    ["größe 日本 🙂", "größe 日本 🙂"],
  ])("the name %j is shown as %j", (foreign, shown) => expect(name(foreign)).toBe(shown));
  it("cuts a name that is none", () => expect(name("x".repeat(5000))).toHaveLength(1025));
  it("keeps the lines of a text", () => expect(text("a\tb\nc\u0007")).toBe("a\tb\nc\\x07"));
});

describe("paths", () => {
  it.each([["/short", 20, "/short"], ["/lisbon/batch-7/IMG_20931.jpg", 20, "/lisbon…MG_20931.jpg"]])("%s cut at %d is %s", (path, most, shown) => {
    expect(middle(path, most)).toBe(shown);
    expect(middle(path, most).length).toBeLessThanOrEqual(most);
  });
});

describe("lines of a log", () => {
  it.each([
    ["plain", "plain"],
    ["10 %\r20 %\r100 %", "100 %"],
    ["windows line\r", "windows line"],
    ["\u001b[31mred\u001b[0m", "red"],
    ["bell\u0007", "bell\\x07"],
  ])("%j shows %j", (line, shown) => expect(logLine(line)).toBe(shown));
});
