// The daemon's REST interface and its event stream. Requests carry the login cookie; nothing else is needed.
const ROOT = "/api/v1";

export class ApiError extends Error {
  constructor(status, code, message, hint) {
    super(hint ? `${message} (${hint})` : message);
    this.status = status;
    this.code = code;
  }
}

async function failure(response) {
  if (response.status === 401) {
    return new ApiError(401, "unauthenticated", "You are not signed in: run “pipelinectl open” in a terminal and follow its link.");
  }
  try {
    const { error } = await response.json();
    return new ApiError(response.status, error.code, error.message, error.hint);
  } catch {
    return new ApiError(response.status, "", `The daemon answered ${response.status}.`);
  }
}

export async function get(path, parameters = {}) {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== undefined && value !== ""));
  const response = await fetch(`${ROOT}${path}${query.size ? `?${query}` : ""}`, { headers: { Accept: "application/json" } });
  if (!response.ok) throw await failure(response);
  return response.json();
}

// Segments of a path, each escaped; one that holds slashes on purpose (a file's path) is given as an array.
export function path(...segments) {
  return segments.flat().map((segment) => `/${encodeURIComponent(segment)}`).join("");
}

// Follows a stage's log: `take(text)` for each piece until it ends or `signal` aborts.
export async function followLog(project, stage, run, signal, take) {
  const query = new URLSearchParams({ run, follow: "1", tail: "1000" });
  const response = await fetch(`${ROOT}/logs${path(project, stage)}?${query}`, { signal });
  if (!response.ok) throw await failure(response);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    take(value);
  }
}

const EVENTS = ["commit", "run", "job", "worker", "metric", "store.low", "pipeline"];

// Calls `changed(type, data)` for each event and `state(text, ok)` when the connection comes or goes. EventSource reconnects by itself
// and names the last event it saw; "reset" means that the daemon no longer has what came after it.
export function follow(changed, state) {
  let source;
  const open = () => {
    source?.close();
    source = new EventSource(`${ROOT}/events`);
    source.onopen = () => {
      state("live", true);
      changed("reset", {});
    };
    source.onerror = () => {
      state("no connection to the daemon, trying again …", false);
      if (source.readyState === EventSource.CLOSED) setTimeout(open, 3000);
    };
    source.addEventListener("reset", open);
    for (const type of EVENTS) {
      source.addEventListener(type, (event) => {
        try {
          changed(type, JSON.parse(event.data));
        } catch {
          changed(type, {});
        }
      });
    }
  };
  open();
}
