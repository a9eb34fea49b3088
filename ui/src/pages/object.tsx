// One object of the bucket, down to its batches.
import { Link } from "wouter";
import { query } from "../api/client";
import { useGet } from "../api/use";
import { topicPath, useParam } from "../parts/address";
import { Card, Empty, Facts, Loaded, Tag, Value } from "../parts/basics";
import { usePreferences } from "../parts/preferences";
import { Table } from "../parts/table";
import type { BatchRow, LaneRow, ObjectView } from "../shapes";
import { bytes, count, dateTime } from "../text/format";
import { indented } from "../text/json";

export default function ObjectPage() {
  const [key] = useParam("key");
  const [after, setAfter] = useParam("after");
  const answer = useGet<ObjectView>(key === "" ? null : `objects${query({ key, after })}`, {
    everyMs: false,
  });
  if (key === "")
    return (
      <Empty icon="storage" title="No object is named">
        <p>Open one from the objects of a topic.</p>
      </Empty>
    );
  return (
    <div className="page">
      <div className="page-head">
        <h1 className="object-name">{key.split("/").at(-1)}</h1>
        <p>
          <code>{key}</code>
        </p>
        <ToTopic of={key} />
      </div>
      <Loaded answer={answer}>{(data) => <Contents data={data} onNext={setAfter} />}</Loaded>
    </div>
  );
}

/** The way back: keys of a topic's objects are namespace/topic/log/name. */
function ToTopic({ of: key }: { of: string }) {
  const topic = key.split("/").length > 3 ? (key.split("/")[1] ?? "") : "";
  if (topic === "" || topic.startsWith("@")) return null;
  return <Link href={topicPath(topic, "objects")}>Objects of {topic}</Link>;
}

function Contents({ data, onNext }: { data: ObjectView; onNext: (after: string) => void }) {
  const { zone } = usePreferences();
  return (
    <>
      <Card title={data.kind}>
        <Facts
          rows={[
            ["size", bytes(data.bytes)],
            ...Object.entries(data.facts).map(([name, value]): [string, React.ReactNode] => [
              name.replace(/_ms$/, "").replaceAll("_", " "),
              value === null
                ? "none"
                : name.endsWith("_ms")
                  ? dateTime(value, zone)
                  : String(value),
            ]),
          ]}
        />
      </Card>
      {data.lanes.length > 0 && <Lanes lanes={data.lanes} />}
      {data.batches.length > 0 && (
        <Card
          title={`Batches, ${count(data.batches.length)} of ${count(data.batches_total)}`}
          flush
        >
          <Batches batches={data.batches} />
          {data.after !== null && (
            <div className="row table-foot">
              <button
                type="button"
                className="button small push"
                onClick={() => onNext(data.after ?? "")}
              >
                Next page
              </button>
            </div>
          )}
        </Card>
      )}
      {data.index.length > 0 && (
        <Card title="Index" flush>
          <Table
            caption="Index"
            rows={data.index}
            rowKey={(row) => `${row.lane} ${row.offset}`}
            columns={[
              { id: "lane", title: "lane", render: (row) => row.lane },
              { id: "offset", title: "offset", number: true, render: (row) => count(row.offset) },
              { id: "byte", title: "at byte", number: true, render: (row) => count(row.byte) },
            ]}
          />
        </Card>
      )}
      {data.document !== null && (
        <Card title="Document">
          <Document value={data.document} />
        </Card>
      )}
    </>
  );
}

function Lanes({ lanes }: { lanes: LaneRow[] }) {
  const { zone } = usePreferences();
  return (
    <Card title="Lanes" flush>
      <Table
        caption="Lanes"
        rows={lanes}
        rowKey={(row) => String(row.lane)}
        columns={[
          { id: "lane", title: "lane", render: (row) => row.lane },
          { id: "first", title: "first", number: true, render: (row) => count(row.first) },
          { id: "last", title: "last", number: true, render: (row) => count(row.last) },
          { id: "records", title: "records", number: true, render: (row) => count(row.records) },
          { id: "start", title: "from byte", number: true, render: (row) => count(row.start) },
          { id: "bytes", title: "bytes", number: true, render: (row) => bytes(row.bytes) },
          {
            id: "newest",
            title: "newest record",
            render: (row) => <Value of={row.newest_ms} show={(ms) => dateTime(ms, zone)} />,
          },
        ]}
      />
    </Card>
  );
}

function Batches({ batches }: { batches: BatchRow[] }) {
  const { zone } = usePreferences();
  return (
    <Table
      caption="Batches"
      rows={batches}
      rowKey={(row) => String(row.byte)}
      columns={[
        { id: "byte", title: "at byte", render: (row) => count(row.byte) },
        { id: "lane", title: "lane", number: true, render: (row) => row.lane },
        { id: "first", title: "first", number: true, render: (row) => count(row.first) },
        { id: "last", title: "last", number: true, render: (row) => count(row.last) },
        { id: "records", title: "records", number: true, render: (row) => count(row.records) },
        { id: "bytes", title: "bytes", number: true, render: (row) => bytes(row.bytes) },
        { id: "codec", title: "compression", render: (row) => row.codec },
        {
          id: "newest",
          title: "newest record",
          render: (row) => <Value of={row.newest_ms} show={(ms) => dateTime(ms, zone)} />,
        },
        {
          id: "producer",
          title: "producer",
          render: (row) =>
            row.producer_id === null || row.producer_id === "-1" ? (
              <span className="faint">none</span>
            ) : (
              `${row.producer_id}, epoch ${row.producer_epoch}, from ${row.sequence}`
            ),
        },
        {
          id: "marks",
          title: "marks",
          render: (row) => (
            <span className="row">
              {row.transactional && <Tag>transactional</Tag>}
              {row.control && <Tag tone="accent">control</Tag>}
              <Tag tone={row.crc_ok ? "good" : "bad"}>
                {row.crc_ok ? "checksum fits" : "checksum wrong"}
              </Tag>
            </span>
          ),
        },
      ]}
    />
  );
}

export function Document({ value }: { value: unknown }) {
  const text = JSON.stringify(value);
  const tokens = indented(text);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard
    <pre className="document" tabIndex={0}>
      {tokens === null ? text : tokens.map((token) => token.text).join("")}
    </pre>
  );
}
