// What changes on a page, said to screen readers: politely, at most once in five seconds.

const PAUSE_MS = 5000;
let region: HTMLElement | null = null;
let waiting: string | null = null;
let lastAt = 0;

export function announce(text: string): void {
  if (region === null) {
    region = document.createElement("div");
    region.className = "visually-hidden";
    region.setAttribute("role", "status");
    document.body.append(region);
  }
  const isFirst = waiting === null;
  waiting = text;
  if (!isFirst) return;
  setTimeout(
    () => {
      if (region !== null) region.textContent = waiting;
      waiting = null;
      lastAt = Date.now();
    },
    Math.max(50, lastAt + PAUSE_MS - Date.now()),
  );
}
