// Lines of a log that say that something went wrong. The daemon finds them by the same words (log_search.h).
const BAD = /\b(error|exception|traceback|fatal|panic|segmentation fault|killed)\b/i;
const NAMED = /(Error|Exception|Traceback|Fatal|Panic|Killed)\b/; // the end of a name: ValueError

export function isBad(line: string): boolean {
  return BAD.test(line) || NAMED.test(line);
}
