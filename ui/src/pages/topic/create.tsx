// The form of a new topic. The brokers check it before it is made.
import { useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { useLocation } from "wouter";
import { change } from "../../api/client";
import { topicPath } from "../../parts/address";
import { Problem } from "../../parts/basics";
import { Dialog, useAction } from "../../parts/dialog";

export function CreateTopic({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState("");
  const [partitions, setPartitions] = useState("");
  const [settings, setSettings] = useState("");
  const [checked, setChecked] = useState("");
  const [, go] = useLocation();
  const client = useQueryClient();

  function body(checkOnly: boolean) {
    return {
      name,
      partitions: partitions === "" ? -1 : Number(partitions),
      configs: parseSettings(settings),
      check_only: checkOnly,
    };
  }
  const create = useAction(async () => {
    await change("POST", "topics", body(false));
    await client.invalidateQueries();
    go(topicPath(name));
  });
  const check = useAction(async () => {
    await change("POST", "topics", body(true));
    setChecked("The brokers would create it.");
  });
  const error = create.error ?? check.error;

  async function submit(event: FormEvent) {
    event.preventDefault();
    setChecked("");
    check.clear();
    await create.run();
  }
  return (
    <Dialog title="Create topic" onClose={onClose}>
      <form onSubmit={submit} className="body">
        <div className="field">
          <label htmlFor="topic-name">Name</label>
          <input
            id="topic-name"
            className="input mono"
            required
            maxLength={249}
            autoComplete="off"
            spellCheck={false}
            value={name}
            onChange={(event) => setName(event.target.value)}
          />
        </div>
        <div className="field">
          <label htmlFor="topic-partitions">Partitions</label>
          <input
            id="topic-partitions"
            className="input"
            inputMode="numeric"
            pattern="[0-9]*"
            placeholder="as the brokers are set up"
            value={partitions}
            onChange={(event) => setPartitions(event.target.value)}
          />
        </div>
        <div className="field">
          <label htmlFor="topic-settings">Settings, one in a line</label>
          <textarea
            id="topic-settings"
            className="input mono"
            rows={4}
            spellCheck={false}
            placeholder={"retention.ms=604800000\ncleanup.policy=compact"}
            value={settings}
            onChange={(event) => setSettings(event.target.value)}
          />
        </div>
        {error !== null && <Problem error={error} />}
        {checked !== "" && (
          <p role="status" className="soft">
            {checked}
          </p>
        )}
        <div className="row">
          <button
            type="button"
            className="button"
            disabled={name === "" || check.busy}
            onClick={() => {
              setChecked("");
              create.clear();
              void check.run();
            }}
          >
            Check only
          </button>
          <button type="submit" className="button primary push" disabled={create.busy}>
            Create topic
          </button>
        </div>
      </form>
    </Dialog>
  );
}

/** name=value lines; what has no = is an error that names the line. */
export function parseSettings(text: string): Record<string, string> {
  const found: Record<string, string> = {};
  for (const [at, raw] of text.split("\n").entries()) {
    const line = raw.trim();
    if (line === "") continue;
    const cut = line.indexOf("=");
    if (cut < 1) throw new Error(`Line ${at + 1} is no name=value: ${line}`);
    found[line.slice(0, cut).trim()] = line.slice(cut + 1).trim();
  }
  return found;
}
