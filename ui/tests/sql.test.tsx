import { cleanup, fireEvent, render, screen } from "@testing-library/react";
import { afterEach, expect, test, vi } from "vitest";
import Sql from "../src/pages/sql";

afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

test("a query that has no rows yet says what it waits for, and can be stopped", () => {
  vi.stubGlobal("fetch", () => new Promise(() => undefined));
  render(<Sql />);
  fireEvent.click(screen.getByRole("button", { name: "Run" }));
  expect(screen.getByRole("status").textContent).toContain("Waiting for Spark");
  fireEvent.click(screen.getByRole("button", { name: "Stop" }));
  expect(screen.getByRole("status").textContent).toBe("");
});
