// Messages of a topic: ask, look, go on, follow. The question is in the address.
import { useCallback, useEffect, useRef, useState } from "react";
import { useSession } from "../../api/use";
import "../../design/messages.css";
import { useParams } from "../../parts/address";
import { announce } from "../../parts/announce";
import { Card, Empty, Problem } from "../../parts/basics";
import type { RecordRow, TopicSummary } from "../../shapes";
import { Detail } from "./detail";
import { RecordList } from "./list";
import Produce from "./produce";
import { fromAddress, type Question, requestOf, tailOf } from "./question";
import { QuestionForm } from "./question-form";
import { type SearchState, useSearch } from "./search";
import { ExportMenu, Progress } from "./status";

export default function Messages({ topic }: { topic: TopicSummary }) {
  const session = useSession();
  const [params, setParams] = useParams();
  const question = fromAddress(params);
  const { state, run, stop } = useSearch();
  const [again, setAgain] = useState<RecordRow | null>(null);
  const path = `topics/${encodeURIComponent(topic.name)}`;

  const search = useCallback(
    (asked: Question, after: string | null = null) =>
      run(after === null ? "search" : "go on", `${path}/records:search`, requestOf(asked, after)),
    [run, path],
  );
  const follow = (asked: Question) => run("follow", `${path}/records:tail`, tailOf(asked));

  // What is there is shown at once; the next questions are asked by hand.
  const begun = useRef(false);
  useEffect(() => {
    if (begun.current) return;
    begun.current = true;
    void search(question);
  }, [search, question]);

  const found = state.records.length;
  useEffect(() => {
    if (state.phase === "ended") announce(`${found} records shown`);
  }, [state.phase, found]);

  const openKey = params.get("open") ?? "";
  const open = state.records.find((one) => keyOf(one) === openKey) ?? null;
  return (
    <>
      <QuestionForm
        topic={topic}
        question={question}
        busy={state.phase === "searching" || state.phase === "following"}
        following={state.phase === "following"}
        onChange={(part) => setParams({ ...part, open: null })}
        onSearch={() => void search(question)}
        onFollow={() => void follow(question)}
        onStop={stop}
      />
      {state.error !== null && <Problem error={state.error} />}
      <Card flush>
        <Progress
          state={state}
          onMore={() => void search(question, state.end?.after ?? null)}
          onStop={stop}
          tools={<ExportMenu topic={topic.name} records={state.records} />}
        />
        <div className={open === null ? "messages" : "messages with-detail"}>
          {found === 0 ? (
            <Nothing state={state} topic={topic} isAsked={isNarrow(question)} />
          ) : (
            <RecordList
              records={state.records}
              openKey={openKey}
              onOpen={(record) => setParams({ open: keyOf(record) })}
            />
          )}
          {open !== null && (
            <Detail
              key={openKey}
              topic={topic.name}
              record={open}
              onClose={() => setParams({ open: null })}
              onSendAgain={session.read_only === true ? undefined : () => setAgain(open)}
            />
          )}
        </div>
      </Card>
      {again !== null && <Produce topic={topic} again={again} onClose={() => setAgain(null)} />}
    </>
  );
}

export function keyOf(record: RecordRow): string {
  return `${record.partition}:${record.offset}`;
}

function isNarrow(question: Question): boolean {
  return question.find !== "" || question.filter !== "" || question.partition !== "all";
}

function Nothing({
  state: { phase, isOpen },
  topic,
  isAsked,
}: {
  state: SearchState;
  topic: TopicSummary;
  isAsked: boolean;
}) {
  if (phase === "searching" || phase === "idle")
    return (
      <p className="loading" role="status">
        Reading…
      </p>
    );
  if (phase === "following")
    return (
      <p className="loading" role="status">
        {isOpen ? "Waiting for the next record…" : "Starting to follow…"}
      </p>
    );
  if (isAsked)
    return (
      <Empty icon="find" title="No record fits">
        <p>The line above says how far the search went. It can go on, or begin elsewhere.</p>
      </Empty>
    );
  return (
    <Empty icon="topics" title="No records here">
      <p>Produce one with the button above, or from a shell:</p>
      <code>echo hello | kafscale produce {topic.name}</code>
    </Empty>
  );
}
