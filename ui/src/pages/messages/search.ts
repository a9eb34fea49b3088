// A search or a tail as it goes: what came, how far it is, why it ended.
import { useCallback, useEffect, useReducer, useRef } from "react";
import { ApiError } from "../../api/client";
import { type StreamEvent, stream } from "../../api/stream";
import type { EndEvent, ProgressEvent, RecordRow, RecordsEvent } from "../../shapes";

export const TAIL_KEEPS = 2000;

export type SearchState = {
  phase: "idle" | "searching" | "following" | "ended";
  isOpen: boolean; // the server has begun: a tail then misses nothing any more
  records: RecordRow[];
  progress: ProgressEvent | null;
  end: EndEvent | null;
  skipped: number;
  perSecond: number | null;
  error: Error | null;
};

export const IDLE: SearchState = {
  phase: "idle",
  isOpen: false,
  records: [],
  progress: null,
  end: null,
  skipped: 0,
  perSecond: null,
  error: null,
};

export type SearchAction =
  | { do: "search" | "go on" | "follow" | "stop" }
  | { do: "event"; event: StreamEvent }
  | { do: "fail"; error: Error };

export function reduce(state: SearchState, action: SearchAction): SearchState {
  switch (action.do) {
    case "search":
      return { ...IDLE, phase: "searching" };
    case "go on":
      return { ...state, phase: "searching", end: null, error: null };
    case "follow":
      return { ...IDLE, phase: "following" };
    case "stop":
      return { ...state, phase: "ended" };
    case "fail":
      return { ...state, phase: "ended", error: action.error };
    case "event":
      return take(state, action.event);
  }
}

function take(state: SearchState, { event, data }: StreamEvent): SearchState {
  if (event === "open") return { ...state, isOpen: true };
  if (event === "records") {
    const got = data as RecordsEvent;
    if (state.phase !== "following")
      return { ...state, records: [...state.records, ...got.records] };
    const newest = [...got.records].reverse(); // the newest on top
    return {
      ...state,
      records: [...newest, ...state.records].slice(0, TAIL_KEEPS),
      skipped: state.skipped + got.skipped,
    };
  }
  if (event === "progress") return { ...state, progress: data as ProgressEvent };
  if (event === "end") {
    const end = data as EndEvent;
    return { ...state, phase: "ended", end, progress: end.progress };
  }
  if (event === "error") {
    const { error } = data as { error: { code: string; message: string } };
    return { ...state, phase: "ended", error: new ApiError(200, error) };
  }
  return state;
}

export function useSearch() {
  const [state, dispatch] = useReducer(reduce, IDLE);
  const running = useRef<AbortController | null>(null);

  const run = useCallback(
    async (begin: "search" | "go on" | "follow", path: string, body: unknown) => {
      running.current?.abort();
      const mine = new AbortController();
      running.current = mine;
      dispatch({ do: begin });
      try {
        const take = (event: StreamEvent) => {
          if (!mine.signal.aborted) dispatch({ do: "event", event });
        };
        await stream(path, body, take, mine.signal);
        if (!mine.signal.aborted) dispatch({ do: "stop" });
      } catch (error) {
        if (mine.signal.aborted) return;
        dispatch({
          do: "fail",
          error: error instanceof Error ? error : new Error(String(error)),
        });
      }
    },
    [],
  );

  const stop = useCallback(() => {
    running.current?.abort();
    dispatch({ do: "stop" });
  }, []);

  useEffect(() => () => running.current?.abort(), []);
  return { state, run, stop };
}
