// Snapshots: what they hold, until when, what that costs; taking and releasing them.
import { useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { Link } from "wouter";
import { change, query } from "../api/client";
import { useGet, useSession } from "../api/use";
import { Card, Empty, Loaded, Problem, Tag, Value } from "../parts/basics";
import { ConfirmDialog, Dialog, useAction } from "../parts/dialog";
import { Icon } from "../parts/icons";
import { usePreferences } from "../parts/preferences";
import { type Column, Table } from "../parts/table";
import type { SnapshotList, SnapshotRow, TopicList } from "../shapes";
import { bytes, count, dateTime, money, plural } from "../text/format";
import { NoBucket } from "./topic/objects";

const SHOWN = 5; // topics of a snapshot

export default function Snapshots() {
  const session = useSession();
  const { zone } = usePreferences();
  const answer = useGet<SnapshotList>(session.has_bucket === false ? null : "snapshots", {
    everyMs: 15_000,
  });
  const [taking, setTaking] = useState(false);
  const [releasing, setReleasing] = useState<SnapshotRow | null>(null);
  const client = useQueryClient();
  const mayChange = session.read_only !== true && session.has_bucket !== false;
  const columns: Column<SnapshotRow>[] = [
    {
      id: "name",
      title: "name",
      render: (row) => (
        <>
          {row.name} {row.expired && <Tag tone="warn">expired</Tag>}
        </>
      ),
    },
    { id: "taken", title: "taken", render: (row) => dateTime(row.taken_ms, zone) },
    { id: "expires", title: "until", render: (row) => dateTime(row.expires_ms, zone) },
    {
      id: "topics",
      title: "topics",
      wrap: true,
      render: (row) => (
        <>
          {row.topics.slice(0, SHOWN).map((topic, at) => (
            <span key={topic}>
              {at > 0 && ", "}
              <Link
                href={`/topics/${encodeURIComponent(topic)}${query({ snapshot: row.name })}`}
                aria-label={`${topic} as of ${row.name}`}
              >
                {topic}
              </Link>
            </span>
          ))}
          {row.topics.length > SHOWN && ` and ${row.topics.length - SHOWN} more`}
        </>
      ),
    },
    { id: "records", title: "records", number: true, render: (row) => count(row.records) },
    {
      id: "bytes",
      title: "holds",
      number: true,
      render: (row) => <Value of={row.bytes} show={bytes} why={answer.data?.unknown.bytes} />,
    },
    {
      id: "month",
      title: "a month",
      number: true,
      render: (row) => <Value of={row.month} show={money} why={answer.data?.unknown.month} />,
    },
    ...(mayChange
      ? [
          {
            id: "release",
            title: "release",
            render: (row: SnapshotRow) => (
              <button
                type="button"
                className="button small danger"
                onClick={() => setReleasing(row)}
              >
                Release<span className="visually-hidden"> {row.name}</span>
              </button>
            ),
          },
        ]
      : []),
  ];
  return (
    <div className="page">
      <div className="page-head">
        <h1>Snapshots</h1>
        {mayChange && (
          <button type="button" className="button primary" onClick={() => setTaking(true)}>
            <Icon name="snapshots" size={16} /> Take snapshot
          </button>
        )}
        <p>
          A snapshot keeps what topics held at a moment, whatever is deleted or compacted later,
          until it is released or its time is over.
        </p>
      </div>
      {session.has_bucket === false ? (
        <NoBucket />
      ) : (
        <Loaded answer={answer}>
          {(data) => (
            <Card flush>
              <Table
                caption="Snapshots"
                columns={columns}
                rows={data.items}
                rowKey={(row) => row.name}
                empty={
                  <Empty icon="snapshots" title="No snapshot is held">
                    <p>
                      Take one before a risky change: this console and Spark can then read the
                      topics as they were.
                    </p>
                  </Empty>
                }
              />
            </Card>
          )}
        </Loaded>
      )}
      {taking && <Take onClose={() => setTaking(false)} />}
      {releasing !== null && (
        <ConfirmDialog
          title={`Release ${releasing.name}`}
          name={releasing.name}
          verb="Release snapshot"
          onClose={() => setReleasing(null)}
          onConfirm={async (typed) => {
            await change("DELETE", `snapshots${query({ name: releasing.name })}`, {
              confirm: typed,
            });
            await client.invalidateQueries();
          }}
        >
          <p>
            It holds {plural(releasing.records, "record")} of{" "}
            {plural(releasing.topics.length, "topic")}. Objects that only it keeps will be deleted.
          </p>
        </ConfirmDialog>
      )}
    </div>
  );
}

function Take({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState("");
  const [days, setDays] = useState("7");
  const [topics, setTopics] = useState<string[]>([]);
  const all = useGet<TopicList>("topics?limit=1000&internal=hide");
  const client = useQueryClient();
  const action = useAction(async () => {
    await change("POST", "snapshots", { name, topics, keep_s: Math.round(Number(days) * 86_400) });
    await client.invalidateQueries();
  });
  async function submit(event: FormEvent) {
    event.preventDefault();
    if (await action.run()) onClose();
  }
  return (
    <Dialog title="Take snapshot" onClose={onClose}>
      <form className="body" onSubmit={submit}>
        <div className="field">
          <label htmlFor="snapshot-name">Name</label>
          <input
            id="snapshot-name"
            className="input mono"
            required
            autoComplete="off"
            value={name}
            onChange={(event) => setName(event.target.value)}
          />
        </div>
        <div className="field">
          <label htmlFor="snapshot-days">Keep for, in days</label>
          <input
            id="snapshot-days"
            className="input short"
            type="number"
            min={0.01}
            step="any"
            required
            value={days}
            onChange={(event) => setDays(event.target.value)}
          />
        </div>
        <div className="field">
          <label htmlFor="snapshot-topics">Topics (none chosen: all)</label>
          <select
            id="snapshot-topics"
            className="input"
            multiple
            size={6}
            value={topics}
            onChange={(event) =>
              setTopics([...event.target.selectedOptions].map((option) => option.value))
            }
          >
            {all.data?.items.map((topic) => (
              <option key={topic.name}>{topic.name}</option>
            ))}
          </select>
        </div>
        {action.error !== null && <Problem error={action.error} />}
        <button type="submit" className="button primary" disabled={action.busy}>
          Take snapshot
        </button>
      </form>
    </Dialog>
  );
}
