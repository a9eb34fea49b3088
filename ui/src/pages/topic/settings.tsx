// Settings of a topic: what is set, where it comes from, and changing it.
import { useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { change } from "../../api/client";
import { useGet, useSession } from "../../api/use";
import { useParam } from "../../parts/address";
import { Card, Loaded, Problem, Tag } from "../../parts/basics";
import { Dialog, useAction } from "../../parts/dialog";
import { type Column, Table } from "../../parts/table";
import type { ConfigsAnswer, TopicConfigRow, TopicConfigs, TopicSummary } from "../../shapes";

export default function Settings({ topic }: { topic: TopicSummary }) {
  const session = useSession();
  const path = `topics/${encodeURIComponent(topic.name)}/configs`;
  const answer = useGet<TopicConfigs>(path, { everyMs: 30_000 });
  const [find, setFind] = useParam("find");
  const [editing, setEditing] = useState<TopicConfigRow | null>(null);
  const columns: Column<TopicConfigRow>[] = [
    { id: "name", title: "setting", render: (row) => <code>{row.name}</code> },
    {
      id: "value",
      title: "value",
      render: (row) =>
        row.sensitive ? <span className="faint">secret</span> : <code>{row.value ?? "null"}</code>,
    },
    {
      id: "source",
      title: "set by",
      render: (row) => <Tag tone={row.source === "topic" ? "accent" : ""}>{row.source}</Tag>,
    },
    { id: "doc", title: "meaning", wrap: true, render: (row) => row.doc },
    ...(session.read_only === true
      ? []
      : [
          {
            id: "edit",
            title: "change",
            render: (row: TopicConfigRow) =>
              row.read_only ? (
                <span className="faint">fixed</span>
              ) : (
                <button type="button" className="button small" onClick={() => setEditing(row)}>
                  Change<span className="visually-hidden"> {row.name}</span>
                </button>
              ),
          },
        ]),
  ];
  return (
    <>
      <div className="row">
        <input
          className="input grow find"
          type="search"
          aria-label="Find settings"
          placeholder="Find settings"
          value={find}
          onChange={(event) => setFind(event.target.value)}
        />
      </div>
      <Loaded answer={answer}>
        {(data) => (
          <Card flush>
            <Table
              caption={`Settings of ${topic.name}`}
              columns={columns}
              rows={data.items
                .filter((row) =>
                  `${row.name} ${row.doc}`.toLowerCase().includes(find.toLowerCase()),
                )
                .sort((a, b) => Number(b.source === "topic") - Number(a.source === "topic"))}
              rowKey={(row) => row.name}
              empty={<p className="loading">No setting has that name.</p>}
            />
          </Card>
        )}
      </Loaded>
      {editing !== null && (
        <EditSetting path={path} setting={editing} onClose={() => setEditing(null)} />
      )}
    </>
  );
}

function EditSetting({
  path,
  setting,
  onClose,
}: {
  path: string;
  setting: TopicConfigRow;
  onClose: () => void;
}) {
  const [value, setValue] = useState(setting.value ?? "");
  const [note, setNote] = useState("");
  const client = useQueryClient();
  async function patch(body: unknown) {
    const answer = await change<ConfigsAnswer | undefined>("PATCH", path, body);
    await client.invalidateQueries();
    if (answer?.moving_to != null)
      setNote(
        `The topic is on its way to ${answer.moving_to}. The list of topics shows when it is there.`,
      );
    else onClose();
  }
  const save = useAction(() => patch({ set: { [setting.name]: value } }));
  const reset = useAction(() => patch({ delete: [setting.name] }));
  const error = save.error ?? reset.error;
  return (
    <Dialog title={setting.name} onClose={onClose}>
      <form
        className="body"
        onSubmit={(event: FormEvent) => {
          event.preventDefault();
          void save.run();
        }}
      >
        <p className="soft">{setting.doc}</p>
        <div className="field">
          <label htmlFor="setting-value">Value ({setting.type})</label>
          <input
            id="setting-value"
            className="input mono"
            autoComplete="off"
            spellCheck={false}
            value={value}
            onChange={(event) => setValue(event.target.value)}
          />
          <p className="faint">
            default: <code>{setting.default ?? "not known"}</code>
          </p>
        </div>
        {error !== null && <Problem error={error} />}
        {note !== "" && (
          <p role="status" className="soft">
            {note}
          </p>
        )}
        <div className="row">
          {setting.source === "topic" && (
            <button
              type="button"
              className="button"
              disabled={reset.busy}
              onClick={() => void reset.run()}
            >
              Back to the default
            </button>
          )}
          <button type="submit" className="button primary push" disabled={save.busy}>
            Save
          </button>
        </div>
      </form>
    </Dialog>
  );
}
