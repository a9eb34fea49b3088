// Small parts that all pages share: unknown values, states in words, empty places, errors.
import { type ReactNode, type RefObject, useEffect, useId, useRef } from "react";
import { ApiError } from "../api/client";
import type { Answer } from "../api/use";
import { age } from "../text/format";
import { Icon, type IconName } from "./icons";

/** A dash that says on hover and focus why there is no number. */
export function Unknown({ why }: { why?: string | null }) {
  const id = useId();
  const tip = useRef<HTMLSpanElement>(null);
  const at = useRef<HTMLButtonElement>(null);
  const reason = why || "The console does not know this yet.";
  function show() {
    const box = at.current?.getBoundingClientRect();
    if (box === undefined || tip.current === null) return;
    tip.current.showPopover();
    tip.current.style.top = `${box.bottom + 4}px`;
    tip.current.style.left = `${Math.max(8, Math.min(box.left, innerWidth - 360))}px`;
  }
  const hide = () => tip.current?.hidePopover();
  return (
    <>
      <button
        ref={at}
        type="button"
        className="unknown"
        aria-label={`unknown: ${reason}`}
        onMouseEnter={show}
        onMouseLeave={hide}
        onFocus={show}
        onBlur={hide}
      >
        –
      </button>
      <span ref={tip} id={id} popover="manual" className="tip" aria-hidden="true">
        {reason}
      </span>
    </>
  );
}

/** The value as `show` writes it, or the dash with its reason. */
export function Value<T>({
  of,
  show,
  why,
  share = false,
}: {
  of: T | null | undefined;
  show: (value: T) => ReactNode;
  why?: string | null;
  share?: boolean;
}) {
  if (of === null || of === undefined) return <Unknown why={why} />;
  if (!share) return <>{show(of)}</>;
  return (
    <span title="A share of logs that several topics use, by bytes">
      <span className="visually-hidden">about </span>~{show(of)}
    </span>
  );
}

export type Tone = "good" | "warn" | "bad" | "accent" | "";

export function Tag({ tone = "", children }: { tone?: Tone; children: ReactNode }) {
  return <span className={`tag ${tone}`}>{children}</span>;
}

export function toneOfState(state: string | null | undefined): Tone {
  if (state === "healthy" || state === "Stable" || state === "done") return "good";
  if (state === "degraded" || state?.includes("Rebalance") || state === "running") return "warn";
  if (state === "unavailable" || state === "Dead" || state === "failed" || state === "lost")
    return "bad";
  return "";
}

export function StateWord({ state, label }: { state: string | null | undefined; label?: string }) {
  return (
    <span className="status">
      <span className={`dot ${toneOfState(state)}`} aria-hidden="true" />
      <span>{label ?? state ?? "not known"}</span>
    </span>
  );
}

export function Empty({
  icon,
  title,
  children,
}: {
  icon: IconName;
  title: string;
  children?: ReactNode;
}) {
  return (
    <div className="empty">
      <Icon name={icon} />
      <h2>{title}</h2>
      {children}
    </div>
  );
}

export function Problem({ error, title }: { error: Error; title?: string }) {
  const api = error instanceof ApiError ? error : null;
  return (
    <div className="alert bad" role="alert">
      <Icon name="error" />
      <div>
        {title !== undefined && <strong>{title} </strong>}
        {error.message}
        {api !== null && api.status > 0 && (
          <div className="faint">
            <code>{api.code}</code>
            {api.problem.request_id ? (
              <>
                {" "}
                request <code>{api.problem.request_id}</code>
              </>
            ) : null}
          </div>
        )}
      </div>
    </div>
  );
}

/** What a question gave: the first wait, the error, or the numbers; old ones grey, with their age. */
export function Loaded<T>({
  answer,
  children,
}: {
  answer: Answer<T>;
  children: (data: T) => ReactNode;
}) {
  if (answer.data === undefined)
    return answer.error === null ? <Loading /> : <Problem error={answer.error} />;
  return (
    <>
      {answer.error !== null && (
        <div className="alert warn" role="status">
          <Icon name="warning" />
          <p>
            {answer.error.message} What you see was read {age(answer.updatedAt, Date.now())}.
          </p>
        </div>
      )}
      <div className={answer.error === null ? "page" : "page stale"}>{children(answer.data)}</div>
    </>
  );
}

/** Scrolls a row of tabs until the current one is seen; on a narrow screen not all of them fit. */
export function useTabInView(tab: string, isShown: boolean): RefObject<HTMLElement | null> {
  const tabs = useRef<HTMLElement>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: only when another tab is chosen
  useEffect(() => {
    const current = tabs.current?.querySelector("[aria-current]");
    current?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [tab, isShown]);
  return tabs;
}

export function Loading() {
  return (
    <div className="loading" role="status">
      Loading…
    </div>
  );
}

export function Card({
  title,
  tools,
  children,
  flush = false,
}: {
  title?: ReactNode;
  tools?: ReactNode;
  children: ReactNode;
  flush?: boolean;
}) {
  return (
    <section className="card">
      {title !== undefined && (
        <header>
          <h2>{title}</h2>
          {tools}
        </header>
      )}
      {flush ? children : <div className="body">{children}</div>}
    </section>
  );
}

export function Tile({
  label,
  children,
  note,
}: {
  label: string;
  children: ReactNode;
  note?: ReactNode;
}) {
  return (
    <div className="tile">
      <dt>{label}</dt>
      <dd>
        {children}
        {note !== undefined && <div className="note">{note}</div>}
      </dd>
    </div>
  );
}

export function Tiles({ children }: { children: ReactNode }) {
  return <dl className="tiles">{children}</dl>;
}

export function Facts({ rows }: { rows: [string, ReactNode][] }) {
  return (
    <dl className="facts">
      {rows.map(([name, value]) => (
        <FactRow key={name} name={name} value={value} />
      ))}
    </dl>
  );
}

function FactRow({ name, value }: { name: string; value: ReactNode }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </>
  );
}
