// All topics: found and sorted by the server, one question for the page.
import { useMemo, useState } from "react";
import { Link } from "wouter";
import { query } from "../api/client";
import { useGet, useSession } from "../api/use";
import { topicPath, useParam, useParams } from "../parts/address";
import { Card, Empty, Loaded, Tag, Value } from "../parts/basics";
import { Icon } from "../parts/icons";
import { useDelayed } from "../parts/palette";
import { type Column, ColumnChooser, CsvButton, Table, useColumns } from "../parts/table";
import type { TopicList, TopicSummary } from "../shapes";
import { bytes, bytesPerSecond, count, duration, money, perSecond, plural } from "../text/format";
import { CreateTopic } from "./topic/create";

const COLUMNS: Column<TopicSummary>[] = [
  {
    id: "name",
    title: "name",
    value: (row) => row.name,
    render: (row) => (
      <>
        <Link href={topicPath(row.name)}>{row.name}</Link>
        {row.moving_to !== null && (
          <>
            {" "}
            <Tag tone="warn">moving to {row.moving_to}</Tag>
          </>
        )}
      </>
    ),
  },
  {
    id: "partitions",
    title: "partitions",
    number: true,
    value: (row) => row.partitions,
    render: (row) => count(row.partitions),
  },
  {
    id: "layout",
    title: "layout",
    value: (row) => row.layout,
    render: (row) => (
      <Value
        of={row.layout}
        show={(layout) =>
          layout === "virtual" && row.logs !== null ? `virtual on ${row.logs}` : layout
        }
        why={row.unknown.layout}
      />
    ),
  },
  numberColumn("records", "records", (row) => row.records, count),
  numberColumn("bytes", "stored", (row) => row.bytes, bytes),
  numberColumn("in_per_s", "written", (row) => row.in_per_s, bytesPerSecond),
  numberColumn("out_per_s", "read", (row) => row.out_per_s, bytesPerSecond),
  {
    id: "puts_per_s",
    title: "PUT/s",
    number: true,
    value: (row) => row.puts_per_s,
    render: (row) => (
      <Value
        of={row.puts_per_s}
        show={perSecond}
        share={row.puts_are_a_share}
        why={row.unknown.puts_per_s}
      />
    ),
  },
  numberColumn("groups", "groups", (row) => row.groups, count),
  {
    id: "worst_lag_s",
    title: "worst lag",
    number: true,
    value: (row) => row.worst_lag_s,
    render: (row) => <WorstLag row={row} />,
  },
  {
    id: "cost_month",
    title: "cost a month",
    number: true,
    value: (row) => row.cost_month,
    render: (row) => (
      <Value
        of={row.cost_month}
        show={money}
        share={row.cost_is_a_share}
        why={row.unknown.cost_month}
      />
    ),
  },
  {
    id: "topic_id",
    title: "id",
    extra: true,
    sortable: false,
    value: (row) => row.topic_id,
    render: (row) => <Value of={row.topic_id} show={(id) => <code>{id}</code>} />,
  },
];

function numberColumn(
  id: keyof TopicSummary & string,
  title: string,
  value: (row: TopicSummary) => number | null,
  show: (value: number) => string,
): Column<TopicSummary> {
  return {
    id,
    title,
    number: true,
    value,
    render: (row) => <Value of={value(row)} show={show} why={row.unknown[id]} />,
  };
}

function WorstLag({ row }: { row: TopicSummary }) {
  if (row.groups === 0) return <span className="faint">no group</span>;
  if (row.worst_lag === 0) return <>0 s</>;
  if (row.worst_lag_s !== null) return <>{duration(row.worst_lag_s)}</>;
  return (
    <Value
      of={row.worst_lag}
      show={(lag) => plural(lag, "record")}
      why={row.unknown.worst_lag_s ?? row.unknown.worst_lag}
    />
  );
}

export default function Topics() {
  const session = useSession();
  const [find, setFind] = useParam("find");
  const [sort, setSort] = useParam("sort", "name");
  const [layout, setLayout] = useParam("layout");
  const [internal, setInternal] = useParam("internal", "hide");
  const [params, setParams] = useParams();
  const [limit, setLimit] = useState(100);
  const late = useDelayed(find);
  const answer = useGet<TopicList>(`topics${query({ find: late, sort, layout, internal, limit })}`);
  const columns = useColumns("topics", COLUMNS);
  const creating = params.get("create") === "1";
  const isFiltered = find !== "" || layout !== "";
  return (
    <div className="page">
      <div className="page-head">
        <h1>Topics</h1>
        {session.read_only !== true && (
          <button
            type="button"
            className="button primary"
            onClick={() => setParams({ create: "1" })}
          >
            <Icon name="plus" size={16} /> Create topic
          </button>
        )}
      </div>
      <div className="row">
        <input
          className="input grow find"
          type="search"
          aria-label="Find topics"
          placeholder="Find topics"
          value={find}
          onChange={(event) => setFind(event.target.value)}
        />
        <select
          className="input"
          aria-label="Layout"
          value={layout}
          onChange={(event) => setLayout(event.target.value)}
        >
          <option value="">all layouts</option>
          <option value="ordinary">ordinary</option>
          <option value="virtual">virtual</option>
          <option value="shared">shared</option>
        </select>
        <label className="check">
          <input
            type="checkbox"
            checked={internal === "hide"}
            onChange={(event) => setInternal(event.target.checked ? "hide" : "show")}
          />
          hide internal
        </label>
        <span className="row push">
          <ColumnChooser table="topics" all={COLUMNS} />
          <CsvButton name="topics" columns={columns} rows={answer.data?.items ?? []} />
        </span>
      </div>
      <Loaded answer={answer}>
        {(data) => (
          <Card flush>
            <Table
              caption="Topics"
              columns={columns}
              rows={data.items}
              rowKey={(row) => row.name}
              sort={sort}
              onSort={setSort}
              empty={isFiltered ? <NoneFound /> : <NoTopics />}
            />
            <More data={data} onMore={() => setLimit(Math.min(1000, limit + 200))} />
          </Card>
        )}
      </Loaded>
      {creating && <CreateTopic onClose={() => setParams({ create: null })} />}
    </div>
  );
}

function More({ data, onMore }: { data: TopicList; onMore: () => void }) {
  const text = useMemo(
    () => `${count(data.items.length)} of ${plural(data.total, "topic")}`,
    [data.items.length, data.total],
  );
  if (data.items.length === 0) return null;
  return (
    <div className="row table-foot">
      <span className="faint">{text}</span>
      {data.after !== null && (
        <button type="button" className="button small push" onClick={onMore}>
          Show more
        </button>
      )}
    </div>
  );
}

function NoneFound() {
  return (
    <Empty icon="find" title="No topic fits">
      <p>Another part of the name, or another layout, may.</p>
    </Empty>
  );
}

function NoTopics() {
  return (
    <Empty icon="topics" title="There are no topics yet">
      <p>Create one here, or produce a record: its topic appears by itself.</p>
      <code>echo hello | kafscale produce first</code>
      <Link href="/topics?create=1" className="button">
        Create topic
      </Link>
    </Empty>
  );
}
