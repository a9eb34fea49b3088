// Keys: going places, moving in tables, help. Single letters can be turned off (WCAG 2.1.4).
import { useLayoutEffect, useRef } from "react";
import { useLocation } from "wouter";
import type { Place } from "../shell";
import { Dialog } from "./dialog";
import { preferences } from "./preferences";

type Actions = { find: () => void; help: () => void };

function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))
  );
}

export function useKeys(places: Place[], actions: Actions): void {
  const [, go] = useLocation();
  const went = useRef(0);
  // Before the page is painted: who sees it may press a key.
  useLayoutEffect(() => {
    function pressed(event: KeyboardEvent) {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        actions.find();
        return;
      }
      const busy = document.querySelector("dialog[open]") !== null;
      if (event.ctrlKey || event.metaKey || event.altKey || busy || isTyping(event.target)) return;
      if (!preferences.get().keys) return;
      if (Date.now() - went.current < 1200) {
        went.current = 0;
        const place = places.find((one) => one.keys === `g ${event.key}`);
        if (place !== undefined) {
          event.preventDefault();
          go(place.path);
          return;
        }
      }
      if (event.key === "g") went.current = Date.now();
      else if (event.key === "?") actions.help();
      else if (event.key === "/") {
        event.preventDefault();
        const field = document.querySelector<HTMLInputElement>("main input[type=search]");
        if (field === null) actions.find();
        else field.focus();
      } else if (event.key === "j" || event.key === "k") {
        event.preventDefault();
        moveRow(event.key === "j" ? 1 : -1);
      }
    }
    document.addEventListener("keydown", pressed);
    return () => document.removeEventListener("keydown", pressed);
  }, [places, actions, go]);
}

/** The focus goes to the link or button of the next row of the table one is in, or of the first. */
function moveRow(step: number): void {
  const inside = document.activeElement?.closest("tbody");
  const body = inside ?? document.querySelector("main tbody");
  const rows = [...(body?.querySelectorAll<HTMLElement>("tr a, tr button.row-open") ?? [])].filter(
    (one, at, all) => one.closest("tr") !== all[at - 1]?.closest("tr"),
  );
  const at = rows.findIndex((one) => one.closest("tr")?.contains(document.activeElement));
  const next = at === -1 ? 0 : Math.min(rows.length - 1, Math.max(0, at + step));
  rows[next]?.focus();
}

export function KeysHelp({ places, onClose }: { places: Place[]; onClose: () => void }) {
  const rows: [string, string][] = [
    ["Ctrl K", "go to any page, topic or group"],
    ["/", "find on this page"],
    ["j  k", "next row, row before"],
    ["Enter", "open the row"],
    ["Esc", "close"],
    ["?", "this help"],
    ...places.flatMap((place): [string, string][] =>
      place.keys === undefined ? [] : [[place.keys, place.title]],
    ),
  ];
  return (
    <Dialog title="Keyboard" onClose={onClose}>
      <div className="body">
        <dl className="facts">
          {rows.map(([keys, what]) => (
            <div key={keys} className="keys-row">
              <dt>
                {keys.split("  ").map((key) => (
                  <kbd key={key}>{key}</kbd>
                ))}
              </dt>
              <dd>{what}</dd>
            </div>
          ))}
        </dl>
        <p className="faint">Single letters can be turned off in the menu at the top right.</p>
      </div>
    </Dialog>
  );
}
