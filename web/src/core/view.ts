// Which part of a drawing is in view: what lies in it, and a margin around it, is drawn in full.

export interface Area {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

export const NOTHING: Area = { left: Infinity, top: Infinity, right: -Infinity, bottom: -Infinity };
export const EVERYTHING: Area = { left: -Infinity, top: -Infinity, right: Infinity, bottom: Infinity };

const MARGIN = 240; // px of the screen that are drawn around the view

export const touches = (a: Area, b: Area) => a.left <= b.right && b.left <= a.right && a.top <= b.bottom && b.top <= a.bottom;

const contains = (a: Area, b: Area) => a.left <= b.left && a.top <= b.top && a.right >= b.right && a.bottom >= b.bottom;

const wider = (area: Area, by: number): Area => ({ left: area.left - by, top: area.top - by, right: area.right + by, bottom: area.bottom + by });

// The area of a node with what hangs over it: the pill of its repo, and the line below a pill.
export const areaOf = (node: { x: number; y: number; w: number; h: number }): Area => ({ left: node.x - 4, top: node.y - 4, right: node.x + node.w + 16, bottom: node.y + node.h + 20 });

export function areaAround(points: [number, number][]): Area {
  const area = { ...NOTHING };
  for (const [x, y] of points) {
    area.left = Math.min(area.left, x);
    area.right = Math.max(area.right, x);
    area.top = Math.min(area.top, y);
    area.bottom = Math.max(area.bottom, y);
  }
  return wider(area, 8); // its arrow, and its label
}

// What to draw of a drawing that lies at `place` on the screen, `scale` px a unit, where `port` is in sight; 0, 0 of the drawing lies
// `inset` units inside of its corner. The area before stays while there is half a margin of it on each side.
export function areaToDraw(before: Area, place: Area, port: Area, scale: number, inset: { x: number; y: number }): Area {
  const most = wider(port, MARGIN);
  if (!(scale > 0) || !touches(place, most)) return NOTHING;
  const unit = (area: Area): Area => ({
    left: (area.left - place.left) / scale - inset.x,
    top: (area.top - place.top) / scale - inset.y,
    right: (area.right - place.left) / scale - inset.x,
    bottom: (area.bottom - place.top) / scale - inset.y,
  });
  return contains(before, unit(wider(port, MARGIN / 2))) && contains(unit(wider(most, MARGIN)), before) ? before : unit(most);
}
