// A bar of datums: failed, ran, reused, to do. Its words stand below it.
import type { Datums } from "../api/schema";
import { number } from "../core/format";

export interface Piece {
  of: "fail" | "done" | "reused" | "run" | "gpu" | "wait";
  share: number; // 0..1
}

const LEAST = 1; // per cent: what is there is seen

// Widths in per cent, each at least LEAST, together at most 100.
export function widths(pieces: Piece[]): number[] {
  const raw = pieces.map((piece) => (piece.share > 0 ? Math.max(LEAST, piece.share * 100) : 0));
  const total = raw.reduce((sum, width) => sum + width, 0);
  return total > 100 ? raw.map((width) => (width * 100) / total) : raw;
}

export function Bar({ pieces, label }: { pieces: Piece[]; label: string }) {
  let x = 0;
  const sizes = widths(pieces);
  return (
    <svg class="bar" viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label={label}>
      {pieces.map((piece, i) => {
        const at = x;
        x += sizes[i]!;
        return sizes[i]! > 0 ? <rect class={`b-${piece.of}`} x={at} width={sizes[i]!} height="6" /> : null;
      })}
    </svg>
  );
}

export function datumPieces(datums: Datums, gpu: boolean, over: boolean): Piece[] {
  const total = Math.max(1, datums.total);
  const running = over ? 0 : Math.min(datums.leased ?? 0, total);
  return [
    { of: "fail", share: datums.failed / total },
    { of: "done", share: datums.done / total },
    { of: "reused", share: datums.reused / total },
    { of: gpu ? "gpu" : "run", share: running / total },
  ];
}

export function DatumBar({ datums, gpu = false, over = true }: { datums: Datums; gpu?: boolean; over?: boolean }) {
  const label = `${number(datums.done)} ran, ${number(datums.reused)} reused, ${number(datums.failed)} failed, of ${number(datums.total)}`;
  return <Bar pieces={datumPieces(datums, gpu, over)} label={label} />;
}

// A hatched surface, for what is held and does nothing.
export function Hatch({ id, wide = 5 }: { id: string; wide?: number }) {
  return (
    <defs><pattern id={id} width={wide} height={wide} patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="hatch-bg" width={wide} height={wide} /><path class="hatch-line" d={`M0 0V${wide}`} /></pattern></defs>
  );
}
