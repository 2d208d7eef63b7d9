// How many pixels a picture has, by its header: the page reads it before the browser decodes the picture, which takes four bytes a pixel however
// small the file is.

export const PIXELS_MAX = 40e6;

export interface Pixels {
  width: number;
  height: number;
}

const text = (bytes: Uint8Array, from: number, length: number) => String.fromCharCode(...bytes.subarray(from, from + length));

// ISO/IEC 10918-1, B.1.1.3: the frame header follows the other segments, such as Exif with a small picture of its own.
function jpeg(bytes: Uint8Array, view: DataView): Pixels | null {
  for (let at = 2; at + 9 <= bytes.length; ) {
    if (bytes[at] !== 0xff) return null;
    const marker = bytes[at + 1]!;
    if (marker === 0xff) at += 1; // fill
    else if (marker === 0x01 || (marker >= 0xd0 && marker <= 0xd8)) at += 2; // without a length
    else if (marker >= 0xc0 && marker <= 0xcf && marker !== 0xc4 && marker !== 0xc8 && marker !== 0xcc) return { width: view.getUint16(at + 7), height: view.getUint16(at + 5) };
    else if (marker === 0xd9 || marker === 0xda) return null; // the end, or data without a frame
    else at += 2 + view.getUint16(at + 2);
  }
  return null;
}

// https://developers.google.com/speed/webp/docs/riff_container
function webp(bytes: Uint8Array, view: DataView): Pixels | null {
  const u24 = (at: number) => view.getUint16(at, true) + (bytes[at + 2]! << 16);
  switch (text(bytes, 12, 4)) {
    case "VP8X":
      return { width: u24(24) + 1, height: u24(27) + 1 };
    case "VP8L": {
      const bits = view.getUint32(21, true);
      return { width: (bits & 0x3fff) + 1, height: ((bits >>> 14) & 0x3fff) + 1 };
    }
    case "VP8 ":
      return { width: view.getUint16(26, true) & 0x3fff, height: view.getUint16(28, true) & 0x3fff };
    default:
      return null;
  }
}

// Null if the bytes are none of PNG, JPEG, GIF, WebP and BMP, or end before the size.
export function pixelsOf(bytes: Uint8Array): Pixels | null {
  if (bytes.length < 30) return null;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (text(bytes, 0, 8) === "\x89PNG\r\n\x1a\n") return { width: view.getUint32(16), height: view.getUint32(20) };
  if (/^GIF8[79]a$/.test(text(bytes, 0, 6))) return { width: view.getUint16(6, true), height: view.getUint16(8, true) };
  if (bytes[0] === 0xff && bytes[1] === 0xd8) return jpeg(bytes, view);
  if (text(bytes, 0, 4) === "RIFF" && text(bytes, 8, 4) === "WEBP") return webp(bytes, view);
  if (text(bytes, 0, 2) === "BM") return { width: Math.abs(view.getInt32(18, true)), height: Math.abs(view.getInt32(22, true)) };
  return null;
}

export const tooMany = (size: Pixels | null) => size !== null && size.width * size.height > PIXELS_MAX;
