// SQL over topics, where the console's settings allow it: one SELECT, rows as they come.
import { type FormEvent, useEffect, useRef, useState } from "react";
import { type StreamEvent, stream } from "../api/stream";
import { useParam } from "../parts/address";
import { Card, Empty, Problem } from "../parts/basics";
import { Table } from "../parts/table";
import { csv, download } from "../text/csv";
import { count, duration, plural } from "../text/format";

type Result = {
  columns: string[];
  rows: (string | null)[][];
  seconds: number | null;
  isRunning: boolean;
  error: Error | null;
};

const NOTHING: Result = { columns: [], rows: [], seconds: null, isRunning: false, error: null };

/** What a query waits for, in steps of five seconds: a live region must not speak all the time. */
function waitingFor(rows: number, seconds: number): string {
  const so_far = seconds < 5 ? "" : ` ${duration(seconds)} so far.`;
  if (rows > 0) return `Reading rows: ${count(rows)} so far.`;
  const slow = seconds < 30 ? "" : " It is stopped after 5 min.";
  return `Waiting for Spark, which starts and then reads the objects.${so_far}${slow}`;
}

/** Seconds since something runs, in steps of five. */
function useSeconds(isRunning: boolean): number {
  const [seconds, setSeconds] = useState(0);
  useEffect(() => {
    setSeconds(0);
    if (!isRunning) return;
    const timer = setInterval(() => setSeconds((before) => before + 5), 5000);
    return () => clearInterval(timer);
  }, [isRunning]);
  return seconds;
}

export default function Sql() {
  const [text, setText] = useParam("q", "SELECT * FROM topic.orders LIMIT 100");
  const [result, setResult] = useState<Result>(NOTHING);
  const running = useRef<AbortController | null>(null);
  useEffect(() => () => running.current?.abort(), []);
  const waited = useSeconds(result.isRunning);

  function take({ event, data }: StreamEvent) {
    const got = data as { columns?: string[]; rows?: (string | null)[][]; seconds?: number };
    setResult((before) => {
      if (event === "columns") return { ...before, columns: got.columns ?? [] };
      if (event === "rows") return { ...before, rows: [...before.rows, ...(got.rows ?? [])] };
      if (event === "end") return { ...before, seconds: got.seconds ?? null, isRunning: false };
      if (event === "error") {
        const { message } = (data as { error: { message: string } }).error;
        return { ...before, isRunning: false, error: new Error(message) };
      }
      return before;
    });
  }

  async function run(event: FormEvent) {
    event.preventDefault();
    running.current?.abort();
    const mine = new AbortController();
    running.current = mine;
    setResult({ ...NOTHING, isRunning: true });
    try {
      await stream("sql:run", { text }, take, mine.signal);
      setResult((before) => ({ ...before, isRunning: false }));
    } catch (error) {
      if (!mine.signal.aborted)
        setResult({ ...NOTHING, error: error instanceof Error ? error : new Error(String(error)) });
    }
  }

  return (
    <div className="page">
      <div className="page-head">
        <h1>SQL</h1>
        <p>
          One SELECT over <code>topic.NAME</code>. Spark runs it beside the console; it reads the
          objects and asks no broker.
        </p>
      </div>
      <form className="stack" onSubmit={run}>
        <textarea
          className="input mono"
          aria-label="Query"
          rows={7}
          spellCheck={false}
          value={text}
          onChange={(event) => setText(event.target.value)}
        />
        <div className="row">
          <button type="submit" className="button primary" disabled={result.isRunning}>
            Run
          </button>
          {result.isRunning && (
            <button
              type="button"
              className="button"
              onClick={() => {
                running.current?.abort();
                setResult((before) => ({ ...before, isRunning: false }));
              }}
            >
              Stop
            </button>
          )}
          <span className="faint" role="status">
            {result.isRunning && waitingFor(result.rows.length, waited)}
            {result.seconds !== null &&
              `${plural(result.rows.length, "row")} in ${duration(result.seconds)}`}
          </span>
          {result.rows.length > 0 && (
            <button
              type="button"
              className="button push"
              onClick={() => download("rows.csv", csv(result.columns, result.rows), "text/csv")}
            >
              CSV
            </button>
          )}
        </div>
      </form>
      {result.error !== null && <Problem error={result.error} />}
      <Card flush>
        <Table
          caption="Rows"
          rows={result.rows.map((cells, at) => ({ cells, at }))}
          rowKey={(row) => count(row.at)}
          columns={result.columns.map((title, at) => ({
            id: `${at}`,
            title,
            render: (row: { cells: (string | null)[] }) =>
              row.cells[at] ?? <span className="faint">null</span>,
          }))}
          empty={
            <Empty
              icon="sql"
              title={result.seconds === null ? "No rows yet" : "The query found no rows"}
            >
              <p>Every query starts a Spark of its own, which takes some seconds.</p>
            </Empty>
          }
        />
      </Card>
    </div>
  );
}
