import { describe, expect, it } from "vitest";
import { pixelsOf, tooMany } from "../src/core/picturesize";

const ascii = (text: string) => [...text].map((c) => c.charCodeAt(0));
const be = (n: number, size: number) => Array.from({ length: size }, (_, i) => (n >>> (8 * (size - 1 - i))) & 0xff);
const le = (n: number, size: number) => be(n, size).reverse();
const file = (...parts: number[][]) => new Uint8Array([...parts.flat(), ...new Array<number>(40).fill(0)]);
const png = (w: number, h: number) => file(ascii("\x89PNG\r\n\x1a\n"), be(13, 4), ascii("IHDR"), be(w, 4), be(h, 4));
const segment = (marker: number, body: number[]) => [0xff, marker, ...be(body.length + 2, 2), ...body];
const frame = (marker: number, w: number, h: number) => segment(marker, [8, ...be(h, 2), ...be(w, 2), 3, 0, 0, 0]);
const webp = (kind: string, body: number[]) => file(ascii("RIFF"), le(100, 4), ascii("WEBP"), ascii(kind), le(30, 4), body);

describe("the pixels of a picture", () => {
  it.each([
    ["PNG", png(30000, 20000)],
    ["GIF", file(ascii("GIF89a"), le(30000, 2), le(20000, 2))],
    ["JPEG", file([0xff, 0xd8], segment(0xe0, ascii("JFIF")), frame(0xc0, 30000, 20000))],
    ["progressive JPEG after tables and fill bytes", file([0xff, 0xd8], segment(0xc4, [1, 2, 3]), [0xff], frame(0xc2, 30000, 20000))],
    ["JPEG whose Exif has a small picture", file([0xff, 0xd8], segment(0xe1, [...ascii("Exif"), 0xff, 0xd8, ...frame(0xc0, 16, 16)]), frame(0xc0, 30000, 20000))],
  ])("are read of a %s", (_, bytes) => expect(pixelsOf(bytes)).toEqual({ width: 30000, height: 20000 }));
  it.each([
    ["lossy", webp("VP8 ", [0, 0, 0, 0x9d, 0x01, 0x2a, ...le(9000, 2), ...le(8000, 2)])],
    ["lossless", webp("VP8L", [0x2f, ...le((8999 | (7999 << 14)) >>> 0, 4)])],
    ["extended", webp("VP8X", [0, 0, 0, 0, ...le(8999, 3), ...le(7999, 3)])],
    ["BMP upside down", file(ascii("BM"), new Array<number>(16).fill(0), le(9000, 4), le(-8000, 4))],
  ])("are read of a %s one", (_, bytes) => expect(pixelsOf(bytes)).toEqual({ width: 9000, height: 8000 }));
  it.each([
    ["of another kind", file(ascii("<svg xmlns='http://www.w3.org/2000/svg'/>"))],
    ["that is cut off", new Uint8Array(ascii("\x89PNG\r\n"))],
    ["JPEG without a frame", file([0xff, 0xd8], segment(0xe0, [1]), segment(0xda, [1]), frame(0xc0, 9, 9))],
    ["JPEG of segments that do not end", file([0xff, 0xd8], [0xff, 0xe1, 0xff, 0xff])],
    ["JPEG with a segment of no length", file([0xff, 0xd8], [0xff, 0xe0, 0, 0])],
  ])("are not known of one %s", (_, bytes) => expect(pixelsOf(bytes)).toBeNull());
  it("are too many above 40 million", () => {
    expect(tooMany(pixelsOf(png(8000, 5000)))).toBe(false);
    expect(tooMany(pixelsOf(png(8000, 5001)))).toBe(true);
    expect(tooMany(pixelsOf(png(0xffffffff, 0xffffffff)))).toBe(true);
    expect(tooMany(null)).toBe(false);
  });
});
