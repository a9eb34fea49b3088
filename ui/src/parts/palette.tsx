// Go to anything: pages, topics and groups by part of their name.
import { useEffect, useId, useRef, useState } from "react";
import { useLocation } from "wouter";
import { query } from "../api/client";
import { useGet } from "../api/use";
import type { GroupList, TopicList } from "../shapes";
import type { Place } from "../shell";
import { groupPath, topicPath } from "./address";

type Hit = { key: string; title: string; kind: string; path: string };

export function Palette({ places, onClose }: { places: Place[]; onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const list = useId();
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const [, go] = useLocation();
  const find = useDelayed(text.trim());
  const topics = useGet<TopicList>(`topics${query({ find, limit: 8 })}`, { everyMs: false });
  const groups = useGet<GroupList>(`groups${query({ find, limit: 5 })}`, { everyMs: false });
  const wanted = text.trim().toLowerCase();
  const hits: Hit[] = [
    ...places
      .filter((place) => place.title.toLowerCase().includes(wanted))
      .map((place) => ({ key: place.path, title: place.title, kind: "page", path: place.path })),
    ...(topics.data?.items ?? [])
      .filter((topic) => topic.name.toLowerCase().includes(wanted))
      .map((topic) => ({
        key: `t ${topic.name}`,
        title: topic.name,
        kind: "topic",
        path: topicPath(topic.name),
      })),
    ...(groups.data?.items ?? [])
      .filter((group) => group.id.toLowerCase().includes(wanted))
      .map((group) => ({
        key: `g ${group.id}`,
        title: group.id,
        kind: "group",
        path: groupPath(group.id),
      })),
  ].slice(0, 14);
  const current = Math.min(at, Math.max(0, hits.length - 1));

  useEffect(() => {
    const element = dialog.current;
    element?.showModal();
    return () => element?.close();
  }, []);

  function open(hit: Hit | undefined) {
    if (hit === undefined) return;
    onClose();
    go(hit.path);
  }

  function pressed(event: React.KeyboardEvent) {
    if (event.key === "ArrowDown") setAt(Math.min(hits.length - 1, current + 1));
    else if (event.key === "ArrowUp") setAt(Math.max(0, current - 1));
    else if (event.key === "Enter") open(hits[current]);
    else return;
    event.preventDefault();
  }

  return (
    <dialog
      ref={dialog}
      aria-label="Go to"
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
    >
      <div className="palette">
        <input
          className="input"
          role="combobox"
          aria-expanded="true"
          aria-controls={list}
          aria-activedescendant={hits.length > 0 ? `${list}-${current}` : undefined}
          aria-label="Page, topic or group"
          placeholder="Page, topic or group"
          autoComplete="off"
          spellCheck={false}
          value={text}
          onChange={(event) => {
            setText(event.target.value);
            setAt(0);
          }}
          onKeyDown={pressed}
        />
        <div id={list} role="listbox" aria-label="Found" className="palette-list">
          {hits.map((hit, i) => (
            // biome-ignore lint/a11y/useKeyWithClickEvents: the field above has the keys
            <div
              key={hit.key}
              id={`${list}-${i}`}
              role="option"
              aria-selected={i === current}
              tabIndex={-1}
              onClick={() => open(hit)}
            >
              <span>{hit.title}</span>
              <span>{hit.kind}</span>
            </div>
          ))}
          {hits.length === 0 && (
            <div role="option" aria-selected="false" tabIndex={-1}>
              Nothing has that name.
            </div>
          )}
        </div>
      </div>
    </dialog>
  );
}

/** A value that has not changed for a moment. */
export function useDelayed(value: string, ms = 180): string {
  const [late, setLate] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setLate(value), ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return late;
}
