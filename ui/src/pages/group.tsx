// One group: lag now and over time, members, and where its offsets can be set.
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useLocation } from "wouter";
import { ApiError, change, query } from "../api/client";
import { useGet, useSession } from "../api/use";
import { groupPath, useParam } from "../parts/address";
import { Card, Empty, Loaded, StateWord, Tile, Tiles, Value } from "../parts/basics";
import { ConfirmDialog } from "../parts/dialog";
import { LagText, TrendText } from "../parts/lag";
import { late } from "../parts/late";
import { SeriesCard, type Span, SpanChoice } from "../parts/series";
import { type Column, CsvButton, Menu, Table, useSorted } from "../parts/table";
import { TopicName } from "../parts/topic-name";
import type { GroupPage, GroupPartitionRow } from "../shapes";
import { count, duration, perSecond, plural } from "../text/format";

const Reset = late(() => import("./reset"));

const TABS = [
  ["lag", "Lag"],
  ["members", "Members"],
] as const;

export default function Group({ tab }: { tab: string }) {
  const [id] = useParam("id");
  const session = useSession();
  const answer = useGet<GroupPage>(`group${query({ id })}`);
  const [asked, setAsked] = useState<"reset" | "delete" | null>(null);
  const client = useQueryClient();
  const [, go] = useLocation();
  if (answer.error instanceof ApiError && answer.error.status === 404)
    return (
      <Empty icon="groups" title={`There is no group ${id}`}>
        <Link href="/groups" className="button">
          All groups
        </Link>
      </Empty>
    );
  const group = answer.data;
  return (
    <div className="page">
      <div className="page-head">
        <h1>{id}</h1>
        {session.read_only !== true && group !== undefined && group.kind === "kafka" && (
          <>
            <button type="button" className="button primary" onClick={() => setAsked("reset")}>
              Reset offsets
            </button>
            <Menu label="More for this group" icon="more" iconOnly>
              <button type="button" className="button" onClick={() => setAsked("delete")}>
                Delete group
              </button>
            </Menu>
          </>
        )}
      </div>
      <nav className="tabs" aria-label={`Parts of ${id}`}>
        {TABS.map(([name, title]) => (
          <Link
            key={name}
            href={groupPath(id, name === "lag" ? "" : name)}
            aria-current={tab === name ? "page" : undefined}
          >
            {title}
          </Link>
        ))}
      </nav>
      <Loaded answer={answer}>
        {(data) => (tab === "members" ? <Members data={data} /> : <Lag data={data} />)}
      </Loaded>
      {asked === "reset" && group !== undefined && (
        <Reset group={group} onClose={() => setAsked(null)} />
      )}
      {asked === "delete" && group !== undefined && (
        <ConfirmDialog
          title={`Delete group ${id}`}
          name={id}
          verb="Delete group"
          onClose={() => setAsked(null)}
          onConfirm={async (typed) => {
            await change("DELETE", `group${query({ id })}`, { confirm: typed });
            go("/groups");
            await client.invalidateQueries();
          }}
        >
          <p>
            What the group has committed for {plural(group.partitions.length, "partition")} is
            forgotten. A consumer that comes back begins where its own settings say.
          </p>
          {group.members.length > 0 && (
            <p>
              Brokers refuse this while {plural(group.members.length, "member is", "members are")}{" "}
              in the group.
            </p>
          )}
        </ConfirmDialog>
      )}
    </div>
  );
}

function Lag({ data }: { data: GroupPage }) {
  const [span, setSpan] = useParam("span", "1h");
  const labels = { group: data.id };
  return (
    <>
      <Tiles>
        <Tile label="State" note={data.assignor === "" ? undefined : data.assignor}>
          <StateWord state={data.state} />
        </Tile>
        <Tile label="Members">{count(data.members.length)}</Tile>
        <Tile label="Records behind">
          <Value of={data.lag} show={count} why={data.unknown.lag} />
        </Tile>
        <Tile label="Time behind">
          <LagText of={data} why={data.unknown.lag_s} />
        </Tile>
        <Tile label="Trend" note={<Pace data={data} />}>
          <TrendText
            of={data}
            why={data.unknown.trend_per_s ?? "It takes two readings to see where the lag goes."}
          />
        </Tile>
      </Tiles>
      <div className="split">
        <SeriesCard
          title="Records behind, over time"
          names="group_lag"
          labels={labels}
          span={span as Span}
          name={() => "records"}
          show={(value) => count(Math.round(value))}
          tools={<SpanChoice span={span} onChange={setSpan} />}
        />
        <SeriesCard
          title="Time behind, over time"
          names="group_lag_s"
          labels={labels}
          span={span as Span}
          name={() => "time"}
          show={duration}
        />
      </div>
      <PartitionsCard data={data} />
    </>
  );
}

function Pace({ data }: { data: GroupPage }) {
  if (data.lag === 0 || data.trend_per_s === null) return null;
  if (data.trend_per_s > 0) return <>never caught up, at this pace</>;
  return <>{perSecond(-data.trend_per_s)} records a second closer</>;
}

function PartitionsCard({ data }: { data: GroupPage }) {
  const [sort, setSort] = useParam("sort", "-lag");
  const why = data.unknown;
  const columns: Column<GroupPartitionRow>[] = [
    {
      id: "topic",
      title: "topic",
      value: (row) => row.topic,
      render: (row) => <TopicName name={row.topic} />,
    },
    {
      id: "partition",
      title: "partition",
      number: true,
      value: (row) => row.partition,
      render: (row) => row.partition,
    },
    {
      id: "committed",
      title: "committed",
      number: true,
      value: (row) => row.committed,
      render: (row) => (
        <Value
          of={row.committed}
          show={count}
          why={why.committed ?? "The group has committed nothing for this partition."}
        />
      ),
    },
    {
      id: "end",
      title: "end",
      number: true,
      value: (row) => row.end,
      render: (row) => <Value of={row.end} show={count} why={why.end} />,
    },
    {
      id: "lag",
      title: "behind",
      number: true,
      value: (row) => row.lag,
      render: (row) => <Value of={row.lag} show={count} why={why.lag} />,
    },
    {
      id: "lag_s",
      title: "time behind",
      number: true,
      value: (row) => row.lag_s,
      render: (row) => <LagText of={row} why={why.lag_s} />,
    },
    {
      id: "client",
      title: "read by",
      value: (row) => row.client,
      render: (row) =>
        row.client === null ? (
          <span className="faint">no member</span>
        ) : (
          <span title={row.member ?? ""}>
            {row.client} <span className="faint">{row.host}</span>
          </span>
        ),
    },
  ];
  const rows = useSorted(data.partitions, columns, sort);
  return (
    <Card
      title="Partitions"
      tools={<CsvButton name={`${data.id}-lag`} columns={columns} rows={rows} />}
      flush
    >
      <Table
        caption={`Partitions of ${data.id}`}
        columns={columns}
        rows={rows}
        rowKey={(row) => `${row.topic} ${row.partition}`}
        sort={sort}
        onSort={setSort}
        empty={<p className="loading">The group has committed nothing and reads nothing.</p>}
      />
    </Card>
  );
}

function Members({ data }: { data: GroupPage }) {
  return (
    <Card title={plural(data.members.length, "member")} flush>
      <Table
        caption={`Members of ${data.id}`}
        rows={data.members}
        rowKey={(row) => row.member}
        columns={[
          { id: "member", title: "member", render: (row) => <code>{row.member}</code> },
          { id: "client", title: "client", render: (row) => row.client },
          { id: "host", title: "host", render: (row) => row.host },
          {
            id: "instance",
            title: "instance",
            render: (row) => row.instance ?? <span className="faint">none</span>,
          },
          { id: "partitions", title: "partitions", number: true, render: (row) => row.partitions },
        ]}
        empty={
          <Empty icon="groups" title="No member is in the group">
            <p>What it has committed stays. Its offsets can be reset now.</p>
          </Empty>
        }
      />
    </Card>
  );
}
