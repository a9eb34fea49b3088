// Resetting offsets: where to, what that means, and then that very plan.
import { useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { change, query } from "../api/client";
import { Problem, Value } from "../parts/basics";
import { Dialog, useAction } from "../parts/dialog";
import { Icon } from "../parts/icons";
import { Table } from "../parts/table";
import type { GroupPage, ResetPlan, ResetRequest } from "../shapes";
import { count, plural } from "../text/format";

type To = ResetRequest["to"];

const CHOICES: [To, string][] = [
  ["earliest", "the first record there is"],
  ["latest", "the end: only new records"],
  ["time", "a time"],
  ["age", "records younger than"],
  ["shift", "so many records forward or back"],
  ["offset", "an offset"],
  ["group", "where another group is"],
];

export default function Reset({ group, onClose }: { group: GroupPage; onClose: () => void }) {
  const [plan, setPlan] = useState<ResetPlan | null>(null);
  return (
    <Dialog title={`Reset offsets of ${group.id}`} onClose={onClose} wide>
      {plan === null ? (
        <Where group={group} onPlan={setPlan} />
      ) : (
        <Preview group={group} plan={plan} onBack={() => setPlan(null)} onClose={onClose} />
      )}
    </Dialog>
  );
}

function Where({ group, onPlan }: { group: GroupPage; onPlan: (plan: ResetPlan) => void }) {
  const [to, setTo] = useState<To>("earliest");
  const [text, setText] = useState("");
  const [topic, setTopic] = useState("");
  const [partition, setPartition] = useState("");
  const topics = [...new Set(group.partitions.map((row) => row.topic))];
  const action = useAction(async () => {
    const body: ResetRequest = {
      to,
      ...typedValue(to, text),
      topic: topic === "" ? null : topic,
      partitions: partition === "" ? null : [Number(partition)],
    };
    const path = `group/offsets:plan${query({ id: group.id })}`;
    onPlan(await change<ResetPlan>("POST", path, body));
  });
  function submit(event: FormEvent) {
    event.preventDefault();
    void action.run();
  }
  return (
    <form className="body" onSubmit={submit}>
      <MembersInTheWay members={group.members} />
      <div className="row end">
        <div className="field">
          <label htmlFor="reset-to">Go to</label>
          <select
            id="reset-to"
            className="input"
            value={to}
            onChange={(event) => {
              setTo(event.target.value as To);
              setText("");
            }}
          >
            {CHOICES.map(([value, title]) => (
              <option key={value} value={value}>
                {title}
              </option>
            ))}
          </select>
        </div>
        {to !== "earliest" && to !== "latest" && (
          <div className="field grow">
            <label htmlFor="reset-value">{LABELS[to]}</label>
            <input
              id="reset-value"
              className="input"
              required
              type={to === "time" ? "datetime-local" : "text"}
              step={1}
              placeholder={to === "age" ? "2h" : to === "shift" ? "-100" : undefined}
              value={text}
              onChange={(event) => setText(event.target.value)}
            />
          </div>
        )}
      </div>
      <div className="row end">
        <div className="field">
          <label htmlFor="reset-topic">Topic</label>
          <select
            id="reset-topic"
            className="input"
            value={topic}
            onChange={(event) => {
              setTopic(event.target.value);
              setPartition("");
            }}
          >
            <option value="">all</option>
            {topics.map((one) => (
              <option key={one}>{one}</option>
            ))}
          </select>
        </div>
        {topic !== "" && (
          <div className="field">
            <label htmlFor="reset-partition">Partition</label>
            <select
              id="reset-partition"
              className="input"
              value={partition}
              onChange={(event) => setPartition(event.target.value)}
            >
              <option value="">all</option>
              {group.partitions
                .filter((row) => row.topic === topic)
                .map((row) => (
                  <option key={row.partition}>{row.partition}</option>
                ))}
            </select>
          </div>
        )}
      </div>
      {action.error !== null && <Problem error={action.error} />}
      <div className="row">
        <button type="submit" className="button primary push" disabled={action.busy}>
          Preview
        </button>
      </div>
    </form>
  );
}

const LABELS: Record<To, string> = {
  earliest: "",
  latest: "",
  time: "Time",
  age: "Age, such as 30m, 2h, 7d",
  shift: "Records",
  offset: "Offset",
  group: "Group",
};

const UNITS_MS: Record<string, number> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** What was typed, as the request has it. */
export function typedValue(to: To, text: string): Pick<ResetRequest, "value" | "group"> {
  if (to === "group") return { group: text };
  if (to === "time") {
    const ms = Date.parse(text);
    if (Number.isNaN(ms)) throw new Error("That is no time.");
    return { value: String(ms) };
  }
  if (to === "age") {
    const match = /^(\d+)\s*([smhd])$/.exec(text.trim());
    if (match === null) throw new Error("An age is a number and one of s, m, h, d: 2h.");
    return { value: String(Number(match[1]) * (UNITS_MS[match[2] as string] as number)) };
  }
  if (to === "shift" || to === "offset") {
    const digits = text.replaceAll(/[,_\s]/g, "");
    if (!/^-?\d{1,19}$/.test(digits)) throw new Error("That is no whole number.");
    return { value: digits };
  }
  return {};
}

function MembersInTheWay({ members }: { members: GroupPage["members"] }) {
  if (members.length === 0) return null;
  const names = members
    .slice(0, 3)
    .map((one) => `${one.client} (${one.host})`)
    .join(", ");
  return (
    <div className="alert warn" role="status">
      <Icon name="warning" />
      <p>
        {plural(members.length, "member is", "members are")} in the group: {names}
        {members.length > 3 && " and others"}. Brokers carry out a reset only while no member is in
        it. You can plan it now.
      </p>
    </div>
  );
}

function Preview({
  group,
  plan,
  onBack,
  onClose,
}: {
  group: GroupPage;
  plan: ResetPlan;
  onBack: () => void;
  onClose: () => void;
}) {
  const [typed, setTyped] = useState("");
  const client = useQueryClient();
  const action = useAction(async () => {
    const path = `group/offsets${query({ id: group.id })}`;
    await change("POST", path, { plan: plan.plan, confirm: typed });
    await client.invalidateQueries();
  });
  async function submit(event: FormEvent) {
    event.preventDefault();
    if (await action.run()) onClose();
  }
  return (
    <form className="body" onSubmit={submit}>
      <MembersInTheWay members={plan.members} />
      <Table
        caption="What the reset would do"
        rows={plan.rows}
        rowKey={(row) => `${row.topic} ${row.partition}`}
        columns={[
          { id: "topic", title: "topic", render: (row) => row.topic },
          { id: "partition", title: "partition", number: true, render: (row) => row.partition },
          {
            id: "committed",
            title: "now",
            number: true,
            render: (row) => <Value of={row.committed} show={count} why="Nothing is committed." />,
          },
          { id: "new", title: "then", number: true, render: (row) => count(row.new) },
          {
            id: "step",
            title: "change",
            number: true,
            render: (row) => <Value of={offsetStep(row.committed, row.new)} show={String} />,
          },
          {
            id: "lag",
            title: "behind then",
            number: true,
            render: (row) => <Value of={row.lag} show={count} />,
          },
        ]}
        empty={
          <p className="loading">Nothing would change: the group has committed nothing there.</p>
        }
      />
      <div className="field">
        <label htmlFor="reset-name">
          Type <code>{group.id}</code> to carry out this plan
        </label>
        <input
          id="reset-name"
          className="input mono"
          autoComplete="off"
          spellCheck={false}
          value={typed}
          onChange={(event) => setTyped(event.target.value)}
        />
      </div>
      {action.error !== null && <Problem error={action.error} />}
      <div className="row">
        <button type="button" className="button" onClick={onBack}>
          Back
        </button>
        <button
          type="submit"
          className="button danger primary push"
          disabled={typed !== group.id || action.busy || plan.rows.length === 0}
        >
          Reset offsets
        </button>
      </div>
    </form>
  );
}

/** How far an offset moves, with its sign; exact beyond 53 bits. */
export function offsetStep(from: string | null, to: string): string | null {
  if (from === null) return null;
  const by = BigInt(to) - BigInt(from);
  return `${by > 0n ? "+" : ""}${count(String(by))}`;
}
