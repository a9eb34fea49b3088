// Pulsar subscriptions and Fluvio consumers.
import { useGet } from "../api/use";
import { useParam } from "../parts/address";
import { Card, Empty, Loaded, Tag, Value } from "../parts/basics";
import { type Column, Table, useSorted } from "../parts/table";
import { TopicName } from "../parts/topic-name";
import type { SubscriptionList, SubscriptionSummary } from "../shapes";
import { count } from "../text/format";

const COLUMNS: Column<SubscriptionSummary>[] = [
  { id: "name", title: "name", value: (row) => row.name, render: (row) => row.name },
  { id: "door", title: "client", value: (row) => row.door, render: (row) => <Tag>{row.door}</Tag> },
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
    title: "acknowledged up to",
    number: true,
    value: (row) => row.committed,
    render: (row) => <Value of={row.committed} show={count} why="Nothing was acknowledged yet." />,
  },
  {
    id: "end",
    title: "end",
    number: true,
    value: (row) => row.end,
    render: (row) => <Value of={row.end} show={count} />,
  },
  {
    id: "lag",
    title: "behind",
    number: true,
    value: (row) => row.lag,
    render: (row) => <Value of={row.lag} show={count} />,
  },
];

export default function Subscriptions() {
  const answer = useGet<SubscriptionList>("subscriptions");
  const [sort, setSort] = useParam("sort", "name");
  const rows = useSorted(answer.data?.items ?? [], COLUMNS, sort);
  return (
    <div className="page">
      <div className="page-head">
        <h1>Subscriptions</h1>
      </div>
      <Loaded answer={answer}>
        {() => (
          <Card flush>
            <Table
              caption="Subscriptions"
              columns={COLUMNS}
              rows={rows}
              rowKey={(row) => `${row.door} ${row.name} ${row.topic} ${row.partition}`}
              sort={sort}
              onSort={setSort}
              empty={
                <Empty icon="subscriptions" title="No subscription yet">
                  <p>Subscriptions of Pulsar clients and consumers of Fluvio appear here.</p>
                </Empty>
              }
            />
          </Card>
        )}
      </Loaded>
    </div>
  );
}
