// The pipeline: the last runs of its jobs, what each did, and what audits found.
import { useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { Link } from "wouter";
import { change, query } from "../api/client";
import { useGet, useSession } from "../api/use";
import { useParam } from "../parts/address";
import {
  Card,
  Empty,
  Facts,
  Loaded,
  Problem,
  StateWord,
  Tag,
  Tile,
  Tiles,
  Value,
} from "../parts/basics";
import { Dialog, useAction } from "../parts/dialog";
import { Icon } from "../parts/icons";
import { usePreferences } from "../parts/preferences";
import { type Column, Table } from "../parts/table";
import { TopicName } from "../parts/topic-name";
import type {
  JobList,
  JobPage,
  JobRequest,
  JobSummary,
  PipelineTable,
  PipelineTables,
} from "../shapes";
import { clock, count, dateTime, duration, money, plural } from "../text/format";
import { Document } from "./object";
import { NoBucket } from "./topic/objects";

export default function Pipeline({ run }: { run: string }) {
  const session = useSession();
  if (session.has_bucket === false) return <NoBucket />;
  return run === "" ? <Runs /> : <Run id={decodeURIComponent(run)} />;
}

function Runs() {
  const { zone } = usePreferences();
  const session = useSession();
  const [starting, setStarting] = useState(false);
  const [job, setJob] = useParam("job");
  const answer = useGet<JobList>(`jobs${query({ job })}`);
  const columns: Column<JobSummary>[] = [
    {
      id: "job",
      title: "job",
      render: (row) => <Link href={`/pipeline/${encodeURIComponent(row.id)}`}>{row.job}</Link>,
    },
    {
      id: "state",
      title: "state",
      render: (row) => (
        <StateWord
          state={row.state}
          label={row.state === "failed" ? `failed (${row.exit_code ?? "no code"})` : row.state}
        />
      ),
    },
    { id: "started", title: "started", render: (row) => dateTime(row.started_ms, zone) },
    {
      id: "took",
      title: "took",
      number: true,
      render: (row) => (
        <Value
          of={row.ended_ms}
          show={(ended) => duration((ended - row.started_ms) / 1000)}
          why={row.state === "running" ? "It has not ended yet." : "It left no report of its end."}
        />
      ),
    },
    { id: "facts", title: "what it did", wrap: true, render: (row) => factsText(row.facts) },
  ];
  return (
    <div className="page">
      <div className="page-head">
        <h1>Pipeline</h1>
        {session.read_only !== true && (
          <button type="button" className="button primary" onClick={() => setStarting(true)}>
            <Icon name="play" size={16} /> Run a job
          </button>
        )}
      </div>
      {starting && <Start onClose={() => setStarting(false)} />}
      <Tables />
      <Audit />
      <Loaded answer={answer}>
        {(data) => (
          <>
            <div className="row">
              <h2 className="section">Runs</h2>
              <select
                className="input"
                aria-label="Job"
                value={job}
                onChange={(event) => setJob(event.target.value)}
              >
                <option value="">all jobs</option>
                {[...new Set([...data.items.map((row) => row.job), job])]
                  .filter((one) => one !== "")
                  .map((one) => (
                    <option key={one}>{one}</option>
                  ))}
              </select>
            </div>
            <Card flush>
              <Table
                caption="Runs of jobs"
                columns={columns}
                rows={data.items}
                rowKey={(row) => row.id}
                empty={
                  <Empty icon="pipeline" title="No job has run yet">
                    <p>Jobs of the pipeline leave a report here: exports, compaction, audits.</p>
                  </Empty>
                }
              />
            </Card>
          </>
        )}
      </Loaded>
    </div>
  );
}

/** Tables that topics declare: how fresh, how far behind, when they were written last. */
function Tables() {
  const answer = useGet<PipelineTables>("pipeline/tables", { everyMs: 30_000 });
  const { zone } = usePreferences();
  const data = answer.data;
  if (data === undefined || (data.items.length === 0 && data.unknown.items === undefined))
    return answer.error === null ? null : <Problem error={answer.error} />;
  const columns: Column<PipelineTable>[] = [
    { id: "topic", title: "topic", render: (row) => <TopicName name={row.topic} /> },
    { id: "format", title: "table", render: (row) => `${row.format}, ${row.mode}` },
    {
      id: "state",
      title: "state",
      render: (row) => (
        <Tag tone={row.state === "fresh" ? "good" : row.state === "late" ? "warn" : "bad"}>
          {row.state}
        </Tag>
      ),
    },
    {
      id: "lag",
      title: "records behind",
      number: true,
      render: (row) => <Value of={row.lag} show={count} why={row.state} />,
    },
    {
      id: "age",
      title: "the oldest waits",
      number: true,
      render: (row) => <Value of={row.age_s} show={duration} why={row.state} />,
    },
    {
      id: "promised",
      title: "promised",
      number: true,
      render: (row) => <Value of={row.promised_s} show={duration} why={row.state} />,
    },
    {
      id: "last",
      title: "last run",
      number: true,
      render: (row) => (
        <Value
          of={row.last_run_s_ago}
          show={(s) => `${duration(s)} ago`}
          why="No run has ended yet."
        />
      ),
    },
    {
      id: "rows",
      title: "rows then",
      number: true,
      render: (row) => <Value of={row.last_rows} show={count} why="No run has ended yet." />,
    },
    {
      id: "money",
      title: "requests, USD a day",
      number: true,
      render: (row) => <Value of={row.money_day} show={money} why="No run has ended yet." />,
    },
  ];
  return (
    <Card
      title="Tables"
      tools={
        <span className="faint">
          {data.runners !== null && `${plural(data.runners, "runner")} alive, `}as of{" "}
          {clock(data.as_of_ms, zone)}
        </span>
      }
      flush
    >
      <Table
        caption="Tables of topics"
        columns={columns}
        rows={data.items}
        rowKey={(row) => row.topic}
        empty={<Empty icon="pipeline" title={data.unknown.items ?? "No topic declares a table"} />}
      />
      {data.notes.map((note) => (
        <p key={note} className="faint note">
          {note}
        </p>
      ))}
    </Card>
  );
}

/** What the newest audit found. */
function Audit() {
  const { zone } = usePreferences();
  const answer = useGet<JobList>(`jobs${query({ job: "audit" })}`);
  const last = answer.data?.items.find((run) => run.ended_ms !== null);
  if (last === undefined) return null;
  return (
    <Tiles>
      <Tile label="Last audit" note={dateTime(last.started_ms, zone)}>
        <Link href={`/pipeline/${encodeURIComponent(last.id)}`}>
          {last.facts.errors === 0 ? "sound" : "has findings"}
        </Link>
      </Tile>
      {["errors", "warnings", "repaired", "objects", "records"].map((name) => (
        <Tile key={name} label={name}>
          <Value of={last.facts[name] ?? null} show={(value) => count(Number(value))} />
        </Tile>
      ))}
    </Tiles>
  );
}

const JOBS: Record<JobRequest["job"], string> = {
  audit: "check format and checksum of every object, and that no offset is missing",
  stats: "report what topics hold, what they cost, and the lag of groups",
  compact: "merge small objects",
  retain: "expire by time and size, delete unused objects",
};

function Start({ onClose }: { onClose: () => void }) {
  const client = useQueryClient();
  const [job, setJob] = useState<JobRequest["job"]>("audit");
  const [topic, setTopic] = useState("");
  const action = useAction(async () => {
    const body: JobRequest = { job, topics: topic.trim() === "" ? [] : [topic.trim()] };
    await change("POST", "jobs", body);
    await client.invalidateQueries();
  });
  async function submit(event: FormEvent) {
    event.preventDefault();
    if (await action.run()) onClose();
  }
  return (
    <Dialog title="Run a job" onClose={onClose}>
      <form className="body" onSubmit={submit}>
        <fieldset className="stack">
          <legend>Job</legend>
          {(Object.keys(JOBS) as JobRequest["job"][]).map((one) => (
            <label key={one} className="check">
              <input type="radio" name="job" checked={job === one} onChange={() => setJob(one)} />
              <span>
                <b>{one}</b>: {JOBS[one]}
              </span>
            </label>
          ))}
        </fieldset>
        <div className="field">
          <label htmlFor="job-topic">Topic (empty: all)</label>
          <input
            id="job-topic"
            className="input"
            value={topic}
            onChange={(event) => setTopic(event.target.value)}
          />
        </div>
        <p className="faint">
          It runs beside the console, at low priority. Its record appears below when it begins.
        </p>
        {action.error !== null && <Problem error={action.error} />}
        <div className="row">
          <button type="submit" className="button primary push" disabled={action.busy}>
            Run
          </button>
          <button type="button" className="button" onClick={onClose}>
            Cancel
          </button>
        </div>
      </form>
    </Dialog>
  );
}

function factsText(facts: JobSummary["facts"]): string {
  return Object.entries(facts)
    .slice(0, 6)
    .map(([name, value]) => `${name.replaceAll("_", " ")} ${value}`)
    .join(", ");
}

function Run({ id }: { id: string }) {
  const { zone } = usePreferences();
  const answer = useGet<JobPage>(`jobs/${encodeURIComponent(id)}`);
  return (
    <div className="page">
      <Loaded answer={answer}>
        {({ run, report }) => (
          <>
            <div className="page-head">
              <h1>{run.job}</h1>
              <StateWord state={run.state} />
            </div>
            <Card title="Run">
              <Facts
                rows={[
                  ["started", dateTime(run.started_ms, zone)],
                  ["ended", run.ended_ms === null ? "not yet" : dateTime(run.ended_ms, zone)],
                  ["exit code", run.exit_code ?? "none"],
                  ...Object.entries(run.facts).map(([name, value]): [string, string] => [
                    name.replaceAll("_", " "),
                    String(value),
                  ]),
                ]}
              />
            </Card>
            {report !== null && (
              <Card title="Report">
                <Document value={report} />
              </Card>
            )}
          </>
        )}
      </Loaded>
    </div>
  );
}
