import { describe, expect, it } from "vitest";
import { age, ago, clock, counted, duration, figure, msBetween, number, percent, size, spelled, utc, when } from "../src/core/format";

const NOW = new Date(2026, 10, 26, 14, 0, 0).getTime(); // local
const before = (seconds: number) => (NOW - seconds * 1000) * 1000;

describe("the clock", () => {
  it.each([[Infinity, "14:00:01"], [8_000, "14:00:01"], [7_999, "14:00:01.9"], [800, "14:00:01.9"], [799, "14:00:01.962"]])("where %d ms are shown says %s", (span, text) => expect(clock((NOW + 1962) * 1000, span)).toBe(text));
  it("tells the ends of a view apart", () => {
    for (const width of [10, 300, 799, 800, 2_000, 7_999, 8_000, 60_000]) expect(clock(NOW * 1000, width)).not.toBe(clock((NOW + width) * 1000, width));
  });
});

describe("numbers", () => {
  it.each([[0, "0"], [999, "999"], [120000, "120,000"], [1e9, "1,000,000,000"]])("%d is %s", (n, text) => expect(number(n)).toBe(text));
  it("counts nouns", () => {
    expect(counted(1, "file")).toBe("1 file");
    expect(counted(3120, "file")).toBe("3,120 files");
    expect(counted(0, "file")).toBe("0 files");
  });
  it("spells small numbers at the beginning of a sentence", () => {
    expect(spelled(3)).toBe("Three");
    expect(spelled(0)).toBe("No");
    expect(spelled(12)).toBe("12");
  });
  it.each([[50, 100, "50 %"], [999, 1000, "99 %"], [1, 0, "–"]])("%d of %d is %s", (part, whole, text) => expect(percent(part, whole)).toBe(text));
  it.each([[0.98333, "0.9833"], [3, "3"], [0.00001234, "1.23e-5"], [12345678.9, "1.23e+7"]])("the figure %d is %s", (n, text) => expect(figure(n)).toBe(text));
});

describe("sizes", () => {
  it.each([[0, "0 B"], [512, "512 B"], [1023, "1023 B"], [1024, "1 KiB"], [4966, "4.8 KiB"], [1048575, "1 MiB"], [19756849561, "18.4 GiB"], [2 ** 70, "1024 EiB"]])(
    "%d bytes are %s", (n, text) => expect(size(n)).toBe(text));
});

describe("durations", () => {
  it("what began since the page's clock was set has taken no time yet", () => {
    expect(msBetween(1_700_000_000_500_000, null, 1_700_000_000_000)).toBe(0);
    expect(msBetween(1_700_000_000_500_000, null, 1_700_000_001_000)).toBe(500);
    expect(msBetween(1_700_000_000_000_000, 1_700_000_000_250_000, 1_600_000_000_000)).toBe(250);
  });
  it.each([[0, "0.0 s"], [83, "0.1 s"], [9949, "9.9 s"], [9960, "10 s"], [59_400, "59 s"], [60_000, "1 min"], [252_000, "4 min 12 s"], [840_000, "14 min"], [7_440_000, "2 h 4 min"],
    [7_200_000, "2 h"], [273_600_000, "3 d 4 h"], [-1, "–"], [NaN, "–"]])("%d ms are %s", (ms, text) => expect(duration(ms)).toBe(text));
});

describe("ages", () => {
  it.each([[0, "0 s"], [59, "59 s"], [900, "15 min"], [3600, "1 h"], [13 * 3600, "13 h"], [15 * 3600, "yesterday"], [3 * 86400, "3 days"], [5 * 86400, "5 days"], [12 * 86400, "14 Nov"], [400 * 86400, "22 Oct 2025"], [-100, "0 s"]])(
    "%d s ago is %s", (seconds, text) => expect(age(before(seconds), NOW)).toBe(text));
  it("makes a part of a sentence", () => {
    expect(ago(before(900), NOW)).toBe("15 min ago");
    expect(ago(before(15 * 3600), NOW)).toBe("yesterday");
    expect(ago(before(12 * 86400), NOW)).toBe("on 14 Nov");
  });
  it("tells the time of day today, and the day otherwise", () => {
    expect(when(before(3600), NOW)).toBe("13:00");
    expect(when(before(86400), NOW)).toBe("yesterday");
  });
  it("says UTC where the pointer is", () => expect(utc(1795716224825947)).toBe("2026-11-26 18:03:44 UTC"));
});
