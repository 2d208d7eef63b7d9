import { describe, expect, it } from "vitest";
import { offsetOf } from "../src/core/spec";

// "ä€😀" are three characters, of 2, 3 and 4 bytes: the daemon counts characters (json_position.h)
describe("the place of a mistake", () => {
  const text = '{"a": 1,\n "ä€😀": 2}';
  it.each([[1, 1, 0], [1, 7, 6], [2, 1, 9], [2, 2, 10], [2, 3, 11], [2, 4, 12], [2, 5, 13], [2, 6, 15]])("line %i, column %i is at %i", (line, column, at) => expect(offsetOf(text, line, column)).toBe(at));
  it("beyond a line is its end", () => expect(offsetOf(text, 1, 99)).toBe(8));
  it("beyond the text is its end", () => expect(offsetOf(text, 9, 1)).toBe(text.length));
});
