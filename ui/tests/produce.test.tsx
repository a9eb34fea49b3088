import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { cleanup, render, screen, waitFor } from "@testing-library/react";
import { afterEach, expect, test, vi } from "vitest";
import Produce from "../src/pages/messages/produce";
import type { RecordRow, TopicSummary } from "../src/shapes";

const topic = { name: "orders", partitions: 1 } as TopicSummary;
const part = (text: string, cut: boolean) => ({ text, decoder: "text", bytes: 9, cut });
const record = {
  partition: 0,
  offset: "7",
  key: part("k", false),
  value: part("all", true),
  headers: [],
} as unknown as RecordRow;

afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

function sendAgain(): HTMLButtonElement {
  render(
    <QueryClientProvider client={new QueryClient()}>
      <Produce topic={topic} again={record} onClose={() => undefined} />
    </QueryClientProvider>,
  );
  return screen.getByRole("button", { name: "Send again" }) as HTMLButtonElement;
}

test("a record can be sent again once all of it has been read", async () => {
  let answer = (_: Response) => {};
  const read = new Promise<Response>((resolve) => {
    answer = resolve;
  });
  vi.stubGlobal("fetch", async () => (await read).clone());
  const button = sendAgain();
  expect(button.disabled).toBe(true);
  answer(new Response("all of it"));
  await waitFor(() => expect(button.disabled).toBe(false));
  expect((screen.getByLabelText("Value") as HTMLTextAreaElement).value).toBe(btoa("all of it"));
});

test("a record that cannot be read is not sent as an empty one", async () => {
  vi.stubGlobal("fetch", async () => new Response("{}", { status: 404 }));
  const button = sendAgain();
  await waitFor(() => expect(screen.getByRole("alert").textContent).toContain("404"));
  expect(button.disabled).toBe(true);
});
