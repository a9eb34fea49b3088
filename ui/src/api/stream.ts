// Streams of the server: text/event-stream as the answer to a POST, read with fetch, because
// EventSource can neither send a body nor see a status, and asks again by itself.
import { send } from "./client";

export type StreamEvent = { event: string; data: unknown };

/** Cuts a text that arrives in pieces of any size into events. */
export class EventFrames {
  private rest = "";

  push(piece: string): StreamEvent[] {
    this.rest += piece;
    const found: StreamEvent[] = [];
    for (;;) {
      const end = /\r?\n\r?\n/.exec(this.rest);
      if (end === null) return found;
      const frame = this.rest.slice(0, end.index);
      this.rest = this.rest.slice(end.index + end[0].length);
      const event = EventFrames.read(frame);
      if (event !== null) found.push(event);
    }
  }

  private static read(frame: string): StreamEvent | null {
    let name = "message";
    const data: string[] = [];
    for (const line of frame.split(/\r?\n/)) {
      if (line.startsWith("event:")) name = line.slice(6).trim();
      else if (line.startsWith("data:")) data.push(line.slice(line[5] === " " ? 6 : 5));
    }
    return data.length === 0 ? null : { event: name, data: JSON.parse(data.join("\n")) };
  }
}

/** Asks, and hands each event to `take`, until the stream ends or the signal says stop.
 * The first is `open`: the server has understood the question and has begun. */
export async function stream(
  path: string,
  body: unknown,
  take: (event: StreamEvent) => void,
  signal: AbortSignal,
): Promise<void> {
  const answer = await send("POST", path, body, signal);
  take({ event: "open", data: null });
  if (answer.body === null) return;
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  const frames = new EventFrames();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    for (const event of frames.push(value)) take(event);
  }
}
