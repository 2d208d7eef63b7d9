// What a page shows, loaded when it is opened and again when an event says that it has changed.
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError } from "../api/client";
import { type Happening, listen } from "../api/events";

export interface Loaded<T> {
  data: T | undefined;
  error: ApiError | Error | undefined;
  loading: boolean; // a first answer is awaited
  reload: () => void;
}

const SOONEST_MS = 250; // between two loads: at most four redraws a second

// `key` names what is loaded: a new one forgets the old data. `concerns` says which events make it load again, `soonest` after how many
// ms at least.
export function useLoad<T>(key: string, load: (signal: AbortSignal) => Promise<T>, concerns: (happening: Happening) => boolean = () => false, soonest = SOONEST_MS): Loaded<T> {
  const [state, setState] = useState<{ key: string; data?: T; error?: Error }>({ key });
  const latest = useRef({ load, concerns });
  latest.current = { load, concerns };
  const again = useRef(() => {});

  useEffect(() => {
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let busy = false;
    let wanted = false;

    const run = async () => {
      busy = true;
      wanted = false;
      const began = performance.now();
      try {
        const data = await latest.current.load(stop.signal);
        if (!stop.signal.aborted) setState({ key, data });
      } catch (error) {
        if (stop.signal.aborted) return;
        setState((before) => ({ ...(before.key === key ? before : { key }), error: error instanceof Error ? error : new Error(String(error)) }));
      }
      // a slow answer makes the next question wait longer
      timer = setTimeout(() => {
        busy = false;
        if (wanted && !stop.signal.aborted) void run();
      }, Math.max(soonest, performance.now() - began));
    };
    again.current = () => {
      if (busy) wanted = true;
      else void run();
    };
    void run();
    const unlisten = listen((happening) => {
      if (happening.type === "again" || latest.current.concerns(happening)) again.current();
    });
    return () => {
      stop.abort();
      clearTimeout(timer);
      unlisten();
    };
  }, [key]);

  const mine = state.key === key;
  return {
    data: mine ? state.data : undefined,
    error: mine ? state.error : undefined,
    loading: !mine || (state.data === undefined && state.error === undefined),
    reload: () => again.current(),
  };
}
