// What a person chose for this browser: theme, time zone, single-letter keys, columns. Nothing
// else is kept; what a page shows is in its address.
import { useSyncExternalStore } from "react";
import type { Zone } from "../text/format";

export type Theme = "system" | "light" | "dark";
type Chosen = { theme: Theme; zone: Zone; keys: boolean; columns: Record<string, string[]> };

const NAME = "kafscale.console";
const DEFAULTS: Chosen = { theme: "system", zone: "local", keys: true, columns: {} };

function load(): Chosen {
  try {
    return { ...DEFAULTS, ...(JSON.parse(localStorage.getItem(NAME) ?? "{}") as Partial<Chosen>) };
  } catch {
    return DEFAULTS; // storage is off or holds something else: begin with the defaults
  }
}

let chosen = load();
const listeners = new Set<() => void>();

export const preferences = {
  get: () => chosen,
  set(part: Partial<Chosen>) {
    chosen = { ...chosen, ...part };
    try {
      localStorage.setItem(NAME, JSON.stringify(chosen));
    } catch {
      // Storage is off: the choice lasts as long as the page.
    }
    preferences.apply();
    for (const listener of listeners) listener();
  },
  apply() {
    const root = document.documentElement;
    if (chosen.theme === "system") delete root.dataset.theme;
    else root.dataset.theme = chosen.theme;
  },
};

export function usePreferences(): Chosen {
  return useSyncExternalStore((listener) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  }, preferences.get);
}
