// How high the rows of a long list are. Rows wrap on narrow screens: those that were drawn are measured, the others are taken to be as high
// as the measured ones are on average.

const KEPT = 20_000; // rows; with more of them all are forgotten but what is usual

export class RowHeights {
  private known = new Map<number, number>();
  private sum = 0;

  constructor(private guess: number) {}

  set(row: number, height: number): void {
    if (this.known.size === KEPT && !this.known.has(row)) {
      this.guess = this.usual;
      this.known.clear();
      this.sum = 0;
    }
    this.sum += height - (this.known.get(row) ?? 0);
    this.known.set(row, height);
  }

  // Of rows that were not drawn yet.
  get usual(): number {
    return this.known.size > 0 ? this.sum / this.known.size : this.guess;
  }

  // The height of the rows before `row` together.
  before(row: number): number {
    let height = row * this.usual;
    for (const [at, one] of this.known) if (at < row) height += one - this.usual;
    return height;
  }

  // The row that lies at so many px below the first one's top.
  at(px: number, count: number): number {
    let [from, to] = [0, count];
    while (from < to) {
      const middle = Math.floor((from + to + 1) / 2);
      if (this.before(middle) <= px) from = middle;
      else to = middle - 1;
    }
    return from;
  }
}
