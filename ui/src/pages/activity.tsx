// What was done in this console, and what it refused.
import { useGet } from "../api/use";
import { useParam } from "../parts/address";
import { Card, Empty, Loaded, Tag } from "../parts/basics";
import { usePreferences } from "../parts/preferences";
import { type Column, CsvButton, Table } from "../parts/table";
import type { ActivityList, ActivityRow } from "../shapes";
import { dateTime } from "../text/format";

export default function Activity() {
  const { zone } = usePreferences();
  const [find, setFind] = useParam("find");
  const answer = useGet<ActivityList>("activity");
  const columns: Column<ActivityRow>[] = [
    {
      id: "at_ms",
      title: "when",
      value: (row) => row.at_ms,
      render: (row) => dateTime(row.at_ms, zone),
    },
    { id: "user", title: "who", value: (row) => row.user, render: (row) => row.user || "–" },
    { id: "address", title: "from", value: (row) => row.address, render: (row) => row.address },
    { id: "action", title: "what", value: (row) => row.action, render: (row) => row.action },
    {
      id: "resource",
      title: "on what",
      value: (row) => row.resource,
      wrap: true,
      render: (row) => <code>{row.resource}</code>,
    },
    {
      id: "outcome",
      title: "outcome",
      value: (row) => row.outcome,
      render: (row) => <Tag tone={row.outcome === "ok" ? "good" : "bad"}>{row.outcome}</Tag>,
    },
    {
      id: "request_id",
      title: "request",
      value: (row) => row.request_id,
      render: (row) => <code>{row.request_id}</code>,
    },
  ];
  const fits = (row: ActivityRow) =>
    `${row.user} ${row.address} ${row.action} ${row.resource} ${row.outcome} ${row.request_id}`
      .toLowerCase()
      .includes(find.toLowerCase());
  return (
    <div className="page">
      <div className="page-head">
        <h1>Activity</h1>
        <p>
          Every change and every refusal of this console, the last 1,000. The log has a line{" "}
          <code>console_action</code> for each, with the same request.
        </p>
      </div>
      <Loaded answer={answer}>
        {(data) => {
          const rows = data.items.filter(fits);
          return (
            <>
              <div className="row">
                <input
                  className="input grow find"
                  type="search"
                  aria-label="Find in the activity"
                  placeholder="Find"
                  value={find}
                  onChange={(event) => setFind(event.target.value)}
                />
                <span className="push">
                  <CsvButton name="activity" columns={columns} rows={rows} />
                </span>
              </div>
              <Card flush>
                <Table
                  caption="Activity"
                  columns={columns}
                  rows={rows}
                  rowKey={(row) => `${row.request_id} ${row.action} ${row.at_ms}`}
                  empty={
                    <Empty icon="activity" title="Nothing was changed yet">
                      <p>Logins, changes and refusals appear here.</p>
                    </Empty>
                  }
                />
              </Card>
            </>
          );
        }}
      </Loaded>
    </div>
  );
}
