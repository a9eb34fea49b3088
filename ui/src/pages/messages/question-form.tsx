// The form of a question, with what it will read before it is asked.
import { useQuery } from "@tanstack/react-query";
import { type FormEvent, useId } from "react";
import { change } from "../../api/client";
import { Icon } from "../../parts/icons";
import { useDelayed } from "../../parts/palette";
import type { SearchPrice, TopicSummary } from "../../shapes";
import { bytes, count, money, plural } from "../../text/format";
import { PartitionChoice } from "../topic/changes";
import { ASKED, DECODERS, type Question, rangeOf } from "./question";

type Props = {
  topic: TopicSummary;
  question: Question;
  busy: boolean;
  following: boolean;
  onChange: (part: Record<string, string | null>) => void;
  onSearch: () => void;
  onFollow: () => void;
  onStop: () => void;
};

export function QuestionForm(props: Props) {
  const { topic, question, onChange, onSearch } = props;
  const id = useId();
  const set = (name: keyof typeof ASKED, value: string) =>
    onChange({ [name]: value === ASKED[name] ? null : value });
  function submit(event: FormEvent) {
    event.preventDefault();
    onSearch();
  }
  return (
    <form className="question" onSubmit={submit} aria-label="Search records">
      <div className="row end">
        <div className="field">
          <label htmlFor={`${id}-from`}>From</label>
          <select
            id={`${id}-from`}
            className="input"
            value={question.from}
            onChange={(event) => {
              onChange({
                from: event.target.value === "newest" ? null : event.target.value,
                at: null,
              });
            }}
          >
            <option value="newest">newest</option>
            <option value="oldest">oldest</option>
            <option value="offset">offset</option>
            <option value="time">time</option>
          </select>
        </div>
        {question.snapshot !== "" && (
          <div className="field">
            <span className="label">As of</span>
            <button
              type="button"
              className="button"
              onClick={() => set("snapshot", "")}
              aria-label={`As of ${question.snapshot}: show what is there now`}
            >
              <Icon name="snapshots" size={15} /> {question.snapshot}{" "}
              <Icon name="close" size={13} />
            </button>
          </div>
        )}
        {(question.from === "offset" || question.from === "time") && (
          <div className="field">
            <label htmlFor={`${id}-at`}>{question.from === "time" ? "Since" : "Offset"}</label>
            <input
              id={`${id}-at`}
              className="input"
              type={question.from === "time" ? "datetime-local" : "text"}
              step={1}
              inputMode={question.from === "offset" ? "numeric" : undefined}
              required
              value={question.at}
              onChange={(event) => set("at", event.target.value)}
            />
          </div>
        )}
        <div className="field">
          <label htmlFor={`${id}-partition`}>Partition</label>
          <PartitionChoice
            id={`${id}-partition`}
            count={topic.partitions}
            value={question.partition}
            onChange={(value) => set("partition", value)}
          />
        </div>
        <div className="field grow">
          <label htmlFor={`${id}-find`}>Text in key, value or headers</label>
          <input
            id={`${id}-find`}
            type="search"
            className="input"
            spellCheck={false}
            value={question.find}
            onChange={(event) => set("find", event.target.value)}
          />
        </div>
        <div className="field grow">
          <label htmlFor={`${id}-filter`}>Filter</label>
          <input
            id={`${id}-filter`}
            className="input mono"
            spellCheck={false}
            autoComplete="off"
            placeholder='value.amount > 100 && headers.trace != ""'
            value={question.filter}
            onChange={(event) => set("filter", event.target.value)}
          />
        </div>
        <Buttons {...props} />
      </div>
      <details className="question-more">
        <summary>
          <PriceLine topic={topic.name} question={question} />
        </summary>
        <Limits id={id} question={question} set={set} />
      </details>
    </form>
  );
}

function Buttons({ question, busy, following, onFollow, onStop }: Props) {
  return (
    <div className="row">
      {busy ? (
        <button type="button" className="button primary" onClick={onStop}>
          <Icon name="stop" size={15} /> Stop
        </button>
      ) : (
        <button type="submit" className="button primary">
          <Icon name="find" size={15} /> Search
        </button>
      )}
      {question.snapshot === "" && (
        <button type="button" className="button" aria-pressed={following} onClick={onFollow}>
          <Icon name="play" size={15} /> Follow
        </button>
      )}
    </div>
  );
}

function Limits({
  id,
  question,
  set,
}: {
  id: string;
  question: Question;
  set: (name: keyof typeof ASKED, value: string) => void;
}) {
  const number = (name: "limit" | "mib" | "seconds", label: string, unit: string) => (
    <div className="field">
      <label htmlFor={`${id}-${name}`}>{label}</label>
      <span className="row">
        <input
          id={`${id}-${name}`}
          className="input short"
          inputMode="numeric"
          value={question[name]}
          onChange={(event) => set(name, event.target.value)}
        />
        {unit}
      </span>
    </div>
  );
  const decoder = (name: "key_as" | "value_as", label: string, value: string) => (
    <div className="field">
      <label htmlFor={`${id}-${name}`}>{label}</label>
      <select
        id={`${id}-${name}`}
        className="input"
        value={value}
        onChange={(event) => set(name, event.target.value)}
      >
        {DECODERS.map((one) => (
          <option key={one}>{one}</option>
        ))}
      </select>
    </div>
  );
  return (
    <div className="row end question-limits">
      {decoder("key_as", "Read keys as", question.keyAs)}
      {decoder("value_as", "Read values as", question.valueAs)}
      {number("limit", "Stop after", "found")}
      {number("mib", "or", "MiB read")}
      {number("seconds", "or", "s")}
    </div>
  );
}

/** What the whole range holds; the limits end a search before. */
function PriceLine({ topic, question }: { topic: string; question: Question }) {
  const body = useDelayed(JSON.stringify(rangeOf(question)), 400);
  const { data } = useQuery<SearchPrice>({
    queryKey: ["price", topic, body],
    queryFn: () =>
      change<SearchPrice>(
        "POST",
        `topics/${encodeURIComponent(topic)}/records:price`,
        JSON.parse(body),
      ),
    refetchInterval: false,
    retry: false,
  });
  const stop = `stops after ${question.limit} found, ${question.mib} MiB or ${question.seconds} s`;
  if (data === undefined) return <>This search {stop}.</>;
  const size = [
    data.records === null ? null : plural(data.records, "record"),
    data.objects === null ? null : plural(data.objects, "object"),
    data.bytes === null ? null : bytes(data.bytes),
  ].filter((part) => part !== null);
  const price =
    data.gets === null || data.money === null
      ? ""
      : ` (${count(data.gets)} GETs, ${money(data.money)} ${data.currency} to read it all)`;
  return (
    <>
      In this range: {size.length === 0 ? "not known" : size.join(", ")}
      {price}. The search {stop}.
    </>
  );
}
