import { cleanup, render, screen, waitFor } from "@testing-library/react";
import { afterEach, expect, test } from "vitest";
import { late } from "../src/parts/late";

afterEach(cleanup);

test("a part shows what it waits with, then itself, and is there at once the next time", async () => {
  let loads = 0;
  const Part = late(
    async () => {
      loads += 1;
      return { default: ({ name }: { name: string }) => <p>hello {name}</p> };
    },
    <p>Loading…</p>,
  );
  render(<Part name="first" />);
  expect(screen.getByText("Loading…")).toBeTruthy();
  await waitFor(() => screen.getByText("hello first"));
  cleanup();
  render(<Part name="second" />);
  expect(screen.getByText("hello second")).toBeTruthy();
  expect(loads).toBe(1);
});

test("code that is gone is said, with what to do", async () => {
  const Part = late(() => Promise.reject(new Error("404")));
  render(<Part />);
  const alert = await waitFor(() => screen.getByRole("alert"));
  expect(alert.textContent).toContain("Reload the page");
});
