// A topic: its tabs and what can be done with all of it.
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useLocation } from "wouter";
import { ApiError, change } from "../api/client";
import { useGet, useSession } from "../api/use";
import { topicPath } from "../parts/address";
import { Empty, Loading, Problem, Tag, useTabInView, Value } from "../parts/basics";
import { ConfirmDialog } from "../parts/dialog";
import { Icon } from "../parts/icons";
import { late } from "../parts/late";
import { Menu } from "../parts/table";
import type { TopicSummary } from "../shapes";
import { bytes, count, plural } from "../text/format";
import { AddPartitions, EmptyTopic } from "./topic/changes";

const Messages = late(() => import("./messages"), <Loading />);
const Partitions = late(() => import("./topic/partitions"), <Loading />);
const Objects = late(() => import("./topic/objects"), <Loading />);
const TopicGroups = late(() => import("./topic/groups"), <Loading />);
const Settings = late(() => import("./topic/settings"), <Loading />);
const TopicCost = late(() => import("./topic/cost"), <Loading />);
const Produce = late(() => import("./messages/produce"));

const TABS = [
  ["messages", "Messages"],
  ["partitions", "Partitions"],
  ["objects", "Objects"],
  ["groups", "Groups"],
  ["settings", "Settings"],
  ["cost", "Cost"],
] as const;

export type Asked = "produce" | "partitions" | "empty" | "delete" | null;

export default function Topic({ name, tab }: { name: string; tab: string }) {
  const answer = useGet<TopicSummary>(`topics/${encodeURIComponent(name)}`);
  const session = useSession();
  const [asked, setAsked] = useState<Asked>(null);
  const tabs = useTabInView(tab, answer.data !== undefined);
  if (answer.error instanceof ApiError && answer.error.status === 404)
    return (
      <Empty icon="topics" title={`There is no topic ${name}`}>
        <p>It was deleted, or never existed.</p>
        <Link href="/topics" className="button">
          All topics
        </Link>
      </Empty>
    );
  if (answer.data === undefined)
    return (
      <div className="page">
        <div className="page-head">
          <h1>{name}</h1>
        </div>
        {answer.error === null ? <Loading /> : <Problem error={answer.error} />}
      </div>
    );
  const topic = answer.data;
  return (
    <div className="page">
      <div className="page-head">
        <h1>{name}</h1>
        {session.read_only !== true && <TopicMenu onAsk={setAsked} />}
        <Summary topic={topic} />
      </div>
      {answer.error !== null && <Problem error={answer.error} title="Not up to date." />}
      <nav ref={tabs} className="tabs" aria-label={`Parts of ${name}`}>
        {TABS.map(([id, title]) => (
          <Link
            key={id}
            href={topicPath(name, id === "messages" ? "" : id)}
            aria-current={tab === id ? "page" : undefined}
          >
            {title}
          </Link>
        ))}
      </nav>
      <Tab topic={topic} tab={tab} />
      <Asking asked={asked} topic={topic} onClose={() => setAsked(null)} />
    </div>
  );
}

function TopicMenu({ onAsk }: { onAsk: (asked: Asked) => void }) {
  return (
    <>
      <button type="button" className="button primary" onClick={() => onAsk("produce")}>
        <Icon name="send" size={16} /> Produce
      </button>
      <Menu label="More for this topic" icon="more" iconOnly>
        <button type="button" className="button" onClick={() => onAsk("partitions")}>
          Add partitions
        </button>
        <button type="button" className="button" onClick={() => onAsk("empty")}>
          Delete records
        </button>
        <button type="button" className="button" onClick={() => onAsk("delete")}>
          Delete topic
        </button>
      </Menu>
    </>
  );
}

function Summary({ topic }: { topic: TopicSummary }) {
  return (
    <p className="row summary">
      <span>{plural(topic.partitions, "partition")}</span>
      <span>
        <Value of={topic.layout} show={String} why={topic.unknown.layout} /> layout
      </span>
      <span>
        <Value of={topic.records} show={count} why={topic.unknown.records} /> records
      </span>
      <span>
        <Value of={topic.bytes} show={bytes} why={topic.unknown.bytes} /> stored
      </span>
      {topic.moving_to !== null && <Tag tone="warn">moving to {topic.moving_to}</Tag>}
    </p>
  );
}

function Tab({ topic, tab }: { topic: TopicSummary; tab: string }) {
  if (tab === "messages") return <Messages topic={topic} />;
  if (tab === "partitions") return <Partitions topic={topic} />;
  if (tab === "objects") return <Objects topic={topic} />;
  if (tab === "groups") return <TopicGroups name={topic.name} />;
  if (tab === "settings") return <Settings topic={topic} />;
  if (tab === "cost") return <TopicCost topic={topic} />;
  return (
    <Empty icon="find" title="A topic has no such part">
      <Link href={topicPath(topic.name)}>Messages of {topic.name}</Link>
    </Empty>
  );
}

function Asking({
  asked,
  topic,
  onClose,
}: {
  asked: Asked;
  topic: TopicSummary;
  onClose: () => void;
}) {
  const client = useQueryClient();
  const [, go] = useLocation();
  if (asked === "produce") return <Produce topic={topic} onClose={onClose} />;
  if (asked === "partitions") return <AddPartitions topic={topic} onClose={onClose} />;
  if (asked === "empty") return <EmptyTopic topic={topic} onClose={onClose} />;
  if (asked !== "delete") return null;
  return (
    <ConfirmDialog
      title={`Delete ${topic.name}`}
      name={topic.name}
      verb="Delete topic"
      onClose={onClose}
      onConfirm={async (typed) => {
        await change("DELETE", `topics/${encodeURIComponent(topic.name)}`, { confirm: typed });
        go("/topics");
        await client.invalidateQueries();
      }}
    >
      <p>
        {topic.records === null ? "All" : `The ${plural(topic.records, "record")}`} in{" "}
        {plural(topic.partitions, "partition")} will be gone, and{" "}
        {topic.bytes === null ? "their objects" : bytes(topic.bytes)} will be deleted from the
        bucket. This cannot be undone.
      </p>
      {topic.groups !== null && topic.groups > 0 && (
        <p>{plural(topic.groups, "group reads", "groups read")} this topic.</p>
      )}
    </ConfirmDialog>
  );
}
