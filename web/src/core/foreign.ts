// Text of others (names, paths, logs, messages): shown as text only, with what could deceive the eye drawn as escapes.

const NAME_MAX = 1024;

// Controls, and characters that reorder text or take no room.
const DECEIVING = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
const IN_NAMES = /[\t\n]/g;

function escape(character: string): string {
  const code = character.charCodeAt(0);
  return code < 0x100 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u${code.toString(16).padStart(4, "0")}`;
}

// A piece of text over several lines: tabs and line ends stay.
export function text(foreign: string): string {
  return foreign.replace(DECEIVING, escape);
}

// A name or one line: no line ends, and cut where it is too long to be one.
export function name(foreign: string): string {
  const cut = foreign.length > NAME_MAX ? `${foreign.slice(0, NAME_MAX)}…` : foreign;
  return cut.replace(DECEIVING, escape).replace(IN_NAMES, escape);
}

// Cuts in the middle, where paths differ least: "/lisbon/…/IMG_20931.jpg".
export function middle(foreign: string, most: number): string {
  const whole = name(foreign);
  if (whole.length <= most) return whole;
  const tail = Math.ceil((most - 1) * 0.6);
  return `${whole.slice(0, most - 1 - tail)}…${whole.slice(whole.length - tail)}`;
}

// What a terminal shows of a log: of a line that is rewritten by \r the last state, without colours.
const COLOURS = /\u001b\[[0-9;?]*[ -/]*[@-~]/g;

export function logLine(line: string): string {
  const plain = line.replace(COLOURS, "").replace(/\r+$/, "");
  return text(plain.slice(plain.lastIndexOf("\r") + 1));
}

export function logText(lines: string): string {
  return lines.split("\n").map(logLine).join("\n");
}
