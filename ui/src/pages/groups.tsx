// All consumer groups: how far behind, in records and in time, and where that leads.
import type { ReactNode } from "react";
import { Link } from "wouter";
import { query } from "../api/client";
import { useGet } from "../api/use";
import { groupPath, useParam } from "../parts/address";
import { Card, Empty, Loaded, StateWord, Tag, Value } from "../parts/basics";
import { LagText, TrendText } from "../parts/lag";
import { useDelayed } from "../parts/palette";
import { type Column, CsvButton, Table } from "../parts/table";
import { TopicName } from "../parts/topic-name";
import type { GroupList, GroupSummary } from "../shapes";
import { count, plural } from "../text/format";

const COLUMNS: Column<GroupSummary>[] = [
  {
    id: "id",
    title: "group",
    value: (row) => row.id,
    render: (row) => (
      <>
        <Link href={groupPath(row.id)}>{row.id}</Link>
        {row.kind !== "kafka" && (
          <>
            {" "}
            <Tag>{row.kind}</Tag>
          </>
        )}
      </>
    ),
  },
  {
    id: "state",
    title: "state",
    value: (row) => row.state,
    render: (row) => <StateWord state={row.state} />,
  },
  {
    id: "members",
    title: "members",
    number: true,
    value: (row) => row.members,
    render: (row) => <Value of={row.members} show={count} why={row.unknown.members} />,
  },
  {
    id: "lag",
    title: "records behind",
    number: true,
    value: (row) => row.lag,
    render: (row) => <Value of={row.lag} show={count} why={row.unknown.lag} />,
  },
  {
    id: "lag_s",
    title: "time behind",
    number: true,
    value: (row) => row.lag_s,
    render: (row) => <LagText of={row} why={row.unknown.lag_s} />,
  },
  {
    id: "trend_per_s",
    title: "trend",
    value: (row) => row.trend_per_s,
    render: (row) => (
      <TrendText
        of={row}
        why={row.unknown.trend_per_s ?? "It takes two readings to see where the lag goes."}
      />
    ),
  },
  {
    id: "topics",
    title: "topics",
    sortable: false,
    value: (row) => row.topics.join(" "),
    render: (row) => (
      <span className="row">
        {row.topics.slice(0, 3).map((topic) => (
          <TopicName key={topic} name={topic} />
        ))}
        {row.topics.length > 3 && <span className="faint">and {row.topics.length - 3} more</span>}
      </span>
    ),
  },
];

export function GroupTable({
  rows,
  sort,
  onSort,
  empty,
}: {
  rows: GroupSummary[];
  sort: string;
  onSort: (sort: string) => void;
  empty: ReactNode;
}) {
  return (
    <Table
      caption="Groups"
      columns={COLUMNS}
      rows={rows}
      rowKey={(row) => row.id}
      sort={sort}
      onSort={onSort}
      empty={empty}
    />
  );
}

export default function Groups() {
  const [find, setFind] = useParam("find");
  const [sort, setSort] = useParam("sort", "-lag");
  const [after, setAfter] = useParam("after");
  const late = useDelayed(find);
  const answer = useGet<GroupList>(`groups${query({ find: late, sort, after })}`);
  return (
    <div className="page">
      <div className="page-head">
        <h1>Groups</h1>
      </div>
      <div className="row">
        <input
          className="input grow find"
          type="search"
          aria-label="Find groups"
          placeholder="Find groups"
          value={find}
          onChange={(event) => setFind(event.target.value)}
        />
        <span className="push">
          <CsvButton name="groups" columns={COLUMNS} rows={answer.data?.items ?? []} />
        </span>
      </div>
      <Loaded answer={answer}>
        {(data) => (
          <Card flush>
            <GroupTable
              rows={data.items}
              sort={sort}
              onSort={setSort}
              empty={
                find === "" ? (
                  <NoGroups />
                ) : (
                  <Empty icon="find" title="No group fits">
                    <p>Another part of the name may.</p>
                  </Empty>
                )
              }
            />
            {data.items.length > 0 && (
              <div className="row table-foot">
                <span className="faint">
                  {count(data.items.length)} of {plural(data.total, "group")}
                </span>
                {data.after !== null && (
                  <button
                    type="button"
                    className="button small push"
                    onClick={() => setAfter(data.after ?? "")}
                  >
                    Next page
                  </button>
                )}
              </div>
            )}
          </Card>
        )}
      </Loaded>
    </div>
  );
}

export function NoGroups({ topic = "orders" }: { topic?: string }) {
  return (
    <Empty icon="groups" title="No group reads here yet">
      <p>
        A consumer with a <code>group.id</code> appears as soon as it joins or commits an offset.
      </p>
      <code>
        kafka-console-consumer.sh --topic {topic} --group first-group --bootstrap-server …
      </code>
    </Empty>
  );
}
