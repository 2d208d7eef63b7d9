// The lines of an event stream, piece by piece (https://html.spec.whatwg.org/multipage/server-sent-events.html).

export interface ServerEvent {
  id: string;
  type: string;
  data: string;
}

const PENDING_MAX = 4 << 20; // characters of an event that has not ended; more is not a stream of ours

export class EventParser {
  private rest = "";
  private id = "";
  private type = "";
  private data: string[] = [];

  // Takes the next piece; returns the events that are complete with it.
  push(piece: string): ServerEvent[] {
    this.rest += piece;
    if (this.rest.length > PENDING_MAX) throw new Error("an event is too long");
    const lines = this.rest.split(/\r\n|\n|\r(?!$)/);
    this.rest = lines.pop() ?? "";
    return lines.flatMap((line) => this.line(line));
  }

  private line(line: string): ServerEvent[] {
    if (line === "") return this.end();
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "id") this.id = value;
    else if (field === "event") this.type = value;
    else if (field === "data") this.data.push(value);
    return []; // a comment, or a field that we do not know
  }

  private end(): ServerEvent[] {
    const event = { id: this.id, type: this.type || "message", data: this.data.join("\n") };
    const any = this.data.length > 0;
    this.type = "";
    this.data = [];
    return any ? [event] : [];
  }
}
