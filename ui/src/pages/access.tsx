// Users, access control lists and quotas, as brokers have them. Kafka's tools change them.
import { useGet, useSession } from "../api/use";
import { Card, Empty, Loaded, Tag } from "../parts/basics";
import { Table } from "../parts/table";
import type { AclList, QuotaList, QuotaRow, UserList } from "../shapes";
import { bytesPerSecond, count } from "../text/format";

export default function Access() {
  const { features } = useSession();
  const has = (name: string) => features?.includes(name) ?? false;
  return (
    <div className="page">
      <div className="page-head">
        <h1>Access</h1>
      </div>
      {has("users") && <Users />}
      {has("acls") && <Acls />}
      {has("quotas") && <Quotas />}
    </div>
  );
}

function Users() {
  const users = useGet<UserList>("users", { everyMs: 15_000 });
  return (
    <Loaded answer={users}>
      {(data) => (
        <Card title="Users with a password" flush>
          <Table
            caption="Users"
            rows={data.items}
            rowKey={(row) => row.name}
            columns={[
              { id: "name", title: "name", render: (row) => row.name },
              {
                id: "mechanisms",
                title: "logs in by",
                render: (row) => row.mechanisms.map((one) => <Tag key={one}>{one}</Tag>),
              },
            ]}
            empty={<Empty icon="users" title="No user has a password stored with the brokers" />}
          />
        </Card>
      )}
    </Loaded>
  );
}

function Acls() {
  const acls = useGet<AclList>("acls", { everyMs: 15_000 });
  return (
    <Loaded answer={acls}>
      {(data) => (
        <Card title="Who may do what" flush>
          <Table
            caption="Access control lists"
            rows={data.items}
            rowKey={(row) => Object.values(row).join(" ")}
            columns={[
              { id: "principal", title: "principal", render: (row) => row.principal },
              {
                id: "permission",
                title: "may",
                render: (row) => (
                  <Tag tone={row.permission.toLowerCase() === "deny" ? "bad" : "good"}>
                    {row.permission}
                  </Tag>
                ),
              },
              { id: "operation", title: "do", render: (row) => row.operation },
              { id: "type", title: "with", render: (row) => row.resource_type },
              { id: "resource", title: "named", render: (row) => <code>{row.resource}</code> },
              { id: "pattern", title: "pattern", render: (row) => row.pattern },
              { id: "host", title: "from", render: (row) => row.host },
            ]}
            empty={<Empty icon="users" title="There are no entries" />}
          />
        </Card>
      )}
    </Loaded>
  );
}

function Quotas() {
  const quotas = useGet<QuotaList>("quotas", { everyMs: 15_000 });
  return (
    <Loaded answer={quotas}>
      {(data) => (
        <Card title="Quotas" flush>
          <Table
            caption="Quotas"
            rows={data.items}
            rowKey={whom}
            columns={[
              { id: "whom", title: "of", render: whom },
              {
                id: "values",
                title: "may use",
                wrap: true,
                render: (row) => Object.entries(row.values).map(allowance).join(", "),
              },
            ]}
            empty={
              <Empty icon="users" title="No client has a quota">
                <p>
                  <code>kafka-configs.sh --alter --entity-type users</code> sets one.
                </p>
              </Empty>
            }
          />
        </Card>
      )}
    </Loaded>
  );
}

/** Which clients a quota is of: user app, every client without a name. */
function whom(row: QuotaRow): string {
  return Object.entries(row.entity)
    .map(([kind, name]) => `${kind} ${name ?? "(all others)"}`)
    .join(", ");
}

function allowance([name, value]: [string, number]): string {
  if (name.endsWith("byte_rate")) return `${name} ${bytesPerSecond(value)}`;
  return name === "request_percentage" ? `${name} ${count(value)} %` : `${name} ${count(value)}`;
}
