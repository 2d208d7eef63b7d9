// Where a text stops being JSON (RFC 8259), in the words of a person: browsers say it in different ways, some without a place.

export interface JsonError {
  line: number; // from 1
  column: number;
  what: string; // "expected a value"
}

const DEPTH_MAX = 512;
const STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*/y;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const SPACE = /[ \t\n\r]*/y;
const WORDS = ["true", "false", "null"];

// null: the text is one JSON value.
export function jsonError(text: string): JsonError | null {
  let at = 0;
  const match = (pattern: RegExp): boolean => {
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    if (found) at += found[0].length;
    return found !== null;
  };
  const fail = (what: string): JsonError => {
    const before = text.slice(0, at);
    const line = before.split("\n").length;
    return { line, column: at - before.lastIndexOf("\n"), what: at >= text.length ? `it ends here: ${what}` : what };
  };
  const string = (): string | null => {
    match(STRING);
    if (text[at] !== '"') return text[at] === "\\" ? "this escape is not known" : text[at] === "\n" || at >= text.length ? "the text is not closed with \"" : "a control character in a text";
    at++;
    return null;
  };
  // what is open: "{" or "["
  const open: string[] = [];
  let state: "value" | "key" | "after" | "first" = "value"; // first: a value or key, or the end of what was just opened
  for (;;) {
    match(SPACE);
    const c = text[at];
    const inside = open[open.length - 1];
    if (state === "after" && !inside) return at < text.length ? fail("nothing may follow the value") : null;
    if ((state === "first" || state === "after") && c === (inside === "{" ? "}" : "]")) {
      at++;
      open.pop();
      state = "after";
    } else if (state === "after") {
      if (c !== ",") return fail(`expected , or ${inside === "{" ? "}" : "]"}`);
      at++;
      state = inside === "{" ? "key" : "value";
    } else if (inside === "{" && (state === "key" || state === "first")) {
      if (c !== '"') return fail("expected a name in \"");
      const wrong = string();
      if (wrong) return fail(wrong);
      match(SPACE);
      if (text[at] !== ":") return fail("expected : after the name");
      at++;
      state = "value";
    } else if (c === "{" || c === "[") {
      if (open.length === DEPTH_MAX) return fail("it is nested too deeply");
      at++;
      open.push(c);
      state = "first";
    } else if (c === '"') {
      const wrong = string();
      if (wrong) return fail(wrong);
      state = "after";
    } else {
      const word = WORDS.find((one) => text.startsWith(one, at));
      if (word) at += word.length;
      else if (!match(NUMBER)) return fail("expected a value");
      state = "after";
    }
  }
}
