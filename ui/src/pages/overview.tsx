// The first page: is it well, what does it do, what does it cost, what wants a look.
import { Link } from "wouter";
import { useGet } from "../api/use";
import { groupPath, topicPath, useParam } from "../parts/address";
import { Card, Empty, Loaded, StateWord, Tile, Tiles, Value } from "../parts/basics";
import { Icon } from "../parts/icons";
import { LagText } from "../parts/lag";
import { SeriesCard, type Span, SpanChoice } from "../parts/series";
import { HealthStrip } from "../parts/strip";
import { Table } from "../parts/table";
import { TopicName } from "../parts/topic-name";
import type { Finding, OverviewPage } from "../shapes";
import { bytesPerSecond, count, money, perSecond, plural } from "../text/format";

export default function Overview() {
  const answer = useGet<OverviewPage>("overview");
  return (
    <div className="page">
      <h1 className="visually-hidden">Overview</h1>
      <Loaded answer={answer}>{(data) => <Contents data={data} />}</Loaded>
    </div>
  );
}

function Contents({ data }: { data: OverviewPage }) {
  const [span, setSpan] = useParam("span", "1h");
  return (
    <>
      <Numbers data={data} />
      {data.findings.length > 0 && <Findings items={data.findings} />}
      {data.topics === 0 && <NoTopics />}
      <div className="split">
        <SeriesCard
          title="Objects written a second"
          names="requests_per_s"
          labels={{ operation: "put" }}
          span={span as Span}
          name={() => "PUT/s"}
          show={perSecond}
          tools={<SpanChoice span={span} onChange={setSpan} />}
        />
        <SeriesCard
          title="Bytes of clients"
          names="in_bytes_per_s,out_bytes_per_s"
          span={span as Span}
          name={(line) => (line.name.startsWith("in") ? "written" : "read")}
          show={bytesPerSecond}
        />
      </div>
      <Card
        title="Object store"
        tools={
          <span className="soft">
            p99 of PUT{" "}
            <Value
              of={data.put_p99_ms}
              show={(ms) => `${perSecond(ms)} ms`}
              why={data.unknown.put_p99_ms}
            />
          </span>
        }
      >
        <HealthStrip points={data.store_strip} nowMs={data.as_of_ms} />
      </Card>
      <div className="split">
        <Expensive data={data} />
        <Behind data={data} />
      </div>
    </>
  );
}

function Numbers({ data }: { data: OverviewPage }) {
  const { unknown } = data;
  return (
    <Tiles>
      <Tile label="Store">
        <Value of={data.store} show={(state) => <StateWord state={state} />} why={unknown.store} />
      </Tile>
      <Tile
        label="Brokers"
        note={data.controller === null ? undefined : `controller ${data.controller}`}
      >
        <Value
          of={data.brokers_ready}
          show={(ready) => (
            <>
              {ready} <small>of {data.brokers} ready</small>
            </>
          )}
          why={unknown.brokers_ready}
        />
      </Tile>
      <Tile label="Topics" note={plural(data.partitions, "partition")}>
        {count(data.topics)}
      </Tile>
      <Tile label="Groups">
        <Value of={data.groups} show={count} why={unknown.groups} />
      </Tile>
      <Tile label="Writes to the bucket">
        <Value
          of={data.rates.puts_per_s}
          show={(rate) => (
            <>
              {perSecond(rate)} <small>PUT/s</small>
            </>
          )}
          why={unknown.puts_per_s}
        />
      </Tile>
      <Tile label="Cost" note="as on S3, at the pace so far">
        <Value
          of={data.cost_month}
          show={(month) => (
            <>
              {money(month)} <small>{data.currency} a month</small>
            </>
          )}
          why={unknown.cost_month}
        />
      </Tile>
    </Tiles>
  );
}

function Findings({ items }: { items: Finding[] }) {
  return (
    <Card title="Worth a look" flush>
      <ul className="findings">
        {items.map((item) => (
          <li key={`${item.kind} ${item.text}`} className={item.severity}>
            <Icon name={item.severity === "info" ? "info" : item.severity} />
            <span>
              <span className="visually-hidden">{item.severity}: </span>
              {item.text}
            </span>
            <FindingLink item={item} />
          </li>
        ))}
      </ul>
    </Card>
  );
}

function FindingLink({ item }: { item: Finding }) {
  const path =
    item.group !== null
      ? groupPath(item.group)
      : item.topic !== null
        ? topicPath(item.topic)
        : item.broker !== null
          ? `/fleet/${item.broker}`
          : item.saving_month !== null
            ? "/cost"
            : null;
  if (path === null) return null;
  return (
    <Link href={path} className="button small">
      Open<span className="visually-hidden">: {item.text}</span>
    </Link>
  );
}

function NoTopics() {
  return (
    <Card flush>
      <Empty icon="topics" title="There are no topics yet">
        <p>Produce a record, and its topic appears here.</p>
        <code>echo hello | kafscale produce first</code>
        <Link href="/topics?create=1" className="button primary">
          Create topic
        </Link>
      </Empty>
    </Card>
  );
}

function Expensive({ data }: { data: OverviewPage }) {
  return (
    <Card title="Most expensive topics" tools={<Link href="/cost">All costs</Link>} flush>
      <Table
        caption="Most expensive topics"
        rows={data.expensive_topics}
        rowKey={(row) => row.topic}
        columns={[
          { id: "topic", title: "topic", render: (row) => <TopicName name={row.topic} /> },
          {
            id: "month",
            title: `${data.currency} a month`,
            number: true,
            render: (row) => <Value of={row.month} show={money} share={row.is_share} />,
          },
        ]}
        empty={<p className="loading">Nothing has been measured yet.</p>}
      />
    </Card>
  );
}

function Behind({ data }: { data: OverviewPage }) {
  return (
    <Card title="Groups furthest behind" tools={<Link href="/groups">All groups</Link>} flush>
      <Table
        caption="Groups furthest behind"
        rows={data.worst_groups}
        rowKey={(row) => row.id}
        columns={[
          {
            id: "id",
            title: "group",
            render: (row) => <Link href={groupPath(row.id)}>{row.id}</Link>,
          },
          {
            id: "lag",
            title: "records behind",
            number: true,
            render: (row) => <Value of={row.lag} show={count} why={row.unknown.lag} />,
          },
          {
            id: "lag_s",
            title: "time behind",
            number: true,
            render: (row) => <LagText of={row} why={row.unknown.lag_s} />,
          },
        ]}
        empty={<p className="loading">No group is behind.</p>}
      />
    </Card>
  );
}
