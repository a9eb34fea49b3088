// How far a search is, why it ended, and what was found as a file.
import type { ReactNode } from "react";
import { usePreferences } from "../../parts/preferences";
import { Menu } from "../../parts/table";
import type { RecordRow } from "../../shapes";
import { csv, download } from "../../text/csv";
import { bytes, clock, count, dateTime, percent } from "../../text/format";
import { type SearchState, TAIL_KEEPS } from "./search";

const REASONS = {
  limit: "Found as many as you asked for.",
  budget: "Stopped where you set the limit.",
  end: "That is all there is.",
  cancelled: "Stopped.",
};

export function Progress({
  state,
  tools,
  onMore,
  onStop,
}: {
  state: SearchState;
  tools: ReactNode;
  onMore: () => void;
  onStop: () => void;
}) {
  return (
    <div className="row progress">
      <span>
        {state.phase === "following" ? <Following state={state} /> : <Looked state={state} />}
      </span>
      {state.end?.after != null && state.phase === "ended" && (
        <button type="button" className="button small" onClick={onMore}>
          Go on
        </button>
      )}
      {state.phase === "searching" && (
        <button type="button" className="button small" onClick={onStop}>
          Stop
        </button>
      )}
      <span className="push">{tools}</span>
    </div>
  );
}

function Following({ state }: { state: SearchState }) {
  if (!state.isOpen) return <span className="faint">Asking where the topic ends…</span>;
  return (
    <>
      <span className="live">Following</span>, {count(state.records.length)} shown
      {state.records.length === TAIL_KEEPS && " (the newest)"}
      {state.skipped > 0 && `; ${count(state.skipped)} more came faster than they can be read`}.
    </>
  );
}

function Looked({ state }: { state: SearchState }) {
  const { zone } = usePreferences();
  const { progress, phase, end } = state;
  if (progress === null)
    return (
      <span className="faint">{phase === "searching" ? "Reading…" : "Nothing was read."}</span>
    );
  const of =
    progress.of === null
      ? ""
      : ` of ${count(progress.of)} (${percent(progress.looked_at, progress.of)})`;
  const reached = Number(progress.reached_ms ?? -1);
  return (
    <>
      Looked at {count(progress.looked_at)}
      {of}, {bytes(progress.bytes)}, {count(progress.found)} found
      {reached >= 0 && (
        <>
          , up to <span title={dateTime(reached, zone)}>{clock(reached, zone)}</span>
        </>
      )}
      {progress.not_evaluated > 0 &&
        `; the filter had no answer for ${count(progress.not_evaluated)}`}
      . {end !== null && <span className="soft">{REASONS[end.reason]}</span>}
    </>
  );
}

export function ExportMenu({ topic, records }: { topic: string; records: RecordRow[] }) {
  const rows = () =>
    records.map((one) => [
      one.partition,
      one.offset,
      one.timestamp_ms,
      one.key.text,
      one.value.text,
      one.bytes,
    ]);
  return (
    <Menu label="Export" icon="download">
      <button
        type="button"
        className="button"
        disabled={records.length === 0}
        onClick={() =>
          download(
            `${topic}.jsonl`,
            records.map((one) => `${JSON.stringify(one)}\n`).join(""),
            "application/jsonl",
          )
        }
      >
        What is shown, as JSON lines
      </button>
      <button
        type="button"
        className="button"
        disabled={records.length === 0}
        onClick={() =>
          download(
            `${topic}.csv`,
            csv(["partition", "offset", "timestamp_ms", "key", "value", "bytes"], rows()),
            "text/csv",
          )
        }
      >
        What is shown, as CSV
      </button>
    </Menu>
  );
}
