// Numbers, sizes, durations and times as people read them. Times of the API are microseconds since 1970.

export function number(n: number): string {
  return Math.round(n).toLocaleString("en-US");
}

// counted(1, "file") = "1 file", counted(3120, "file") = "3,120 files"
export function counted(n: number, noun: string, plural = `${noun}s`): string {
  return `${number(n)} ${n === 1 ? noun : plural}`;
}

const SMALL = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"];

// For the beginning of a sentence: "Three", "12".
export function spelled(n: number): string {
  const word = SMALL[n];
  return word ? word.charAt(0).toUpperCase() + word.slice(1) : number(n);
}

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

export function size(bytes: number): string {
  let unit = 0;
  let value = bytes;
  for (; value >= 1023.5 && unit + 1 < UNITS.length; unit++) value /= 1024;
  const text = unit === 0 || value >= 99.95 ? Math.round(value).toString() : value.toFixed(1).replace(/\.0$/, "");
  return `${text} ${UNITS[unit]}`;
}

// From a time to another one, or to now, in ms. What began since the page's clock was set has taken no time yet.
export function msBetween(fromUs: number, toUs: number | null | undefined, nowMs: number): number {
  return Math.max(0, (toUs || nowMs * 1000) - fromUs) / 1000;
}

// "0.1 s", "8 s", "4 min 12 s", "14 min", "2 h 4 min", "3 d 4 h"
export function duration(ms: number): string {
  if (ms < 0 || !Number.isFinite(ms)) return "–";
  if (ms < 9_950) return `${(Math.round(ms / 100) / 10).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 10) return pair(minutes, "min", seconds % 60, "s");
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 24 ? pair(hours, "h", minutes % 60, "min") : pair(Math.floor(hours / 24), "d", hours % 24, "h");
}

function pair(large: number, of: string, small: number, rest: string): string {
  return small ? `${large} ${of} ${small} ${rest}` : `${large} ${of}`;
}

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

function daysBetween(then: Date, now: Date): number {
  const day = (date: Date) => Date.UTC(date.getFullYear(), date.getMonth(), date.getDate()) / 86_400_000;
  return day(now) - day(then);
}

// How long ago: "12 s", "15 min", "5 h", "yesterday", "3 days", "21 Nov", "21 Nov 2024". A time ahead of the clock counts as now.
export function age(us: number, nowMs: number): string {
  const then = new Date(us / 1000);
  const now = new Date(nowMs);
  const seconds = Math.max(0, Math.floor((nowMs - us / 1000) / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  const days = daysBetween(then, now);
  if (days === 0 || seconds < 6 * 3600) return `${Math.floor(seconds / 3600)} h`;
  if (days === 1) return "yesterday";
  if (days < 7) return `${days} days`;
  return date(then, now);
}

// The same as a part of a sentence: "15 min ago", "yesterday", "on 21 Nov".
export function ago(us: number, nowMs: number): string {
  const text = age(us, nowMs);
  if (text === "yesterday") return text;
  return /^\d+ (s|min|h|days)$/.test(text) ? `${text} ago` : `on ${text}`;
}

function date(then: Date, now: Date): string {
  const text = `${then.getDate()} ${MONTHS[then.getMonth()]}`;
  return then.getFullYear() === now.getFullYear() ? text : `${text} ${then.getFullYear()}`;
}

const two = (n: number) => n.toString().padStart(2, "0");

// A moment: the time of day today, else "yesterday" or the date.
export function when(us: number, nowMs: number): string {
  const then = new Date(us / 1000);
  const now = new Date(nowMs);
  const days = daysBetween(then, now);
  if (days === 0) return `${two(then.getHours())}:${two(then.getMinutes())}`;
  return days === 1 ? "yesterday" : date(then, now);
}

// "12:40:07" in local time; "12:40:07.2" and "12:40:07.215" where the time that is shown, `spanMs`, is so short that seconds would not tell its moments apart.
export function clock(us: number, spanMs = Infinity): string {
  const then = new Date(us / 1000);
  const digits = spanMs < 800 ? 3 : spanMs < 8_000 ? 1 : 0;
  const part = digits > 0 ? `.${then.getMilliseconds().toString().padStart(3, "0").slice(0, digits)}` : "";
  return `${two(then.getHours())}:${two(then.getMinutes())}:${two(then.getSeconds())}${part}`;
}

// For `title`: "2026-11-26 12:40:07 UTC".
export function utc(us: number): string {
  return `${new Date(us / 1000).toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

export function percent(part: number, whole: number): string {
  return whole > 0 ? `${Math.floor((part * 100) / whole)} %` : "–";
}

// A figure of a metric: four significant digits, integers whole.
export function figure(value: number): string {
  if (Number.isInteger(value)) return number(value);
  const size = Math.abs(value);
  return size >= 1e6 || size < 1e-4 ? value.toExponential(2) : value.toPrecision(4);
}

// The first eight digits of an id.
export function short(id: string): string {
  return id.slice(0, 8);
}
