import { cleanup, fireEvent, render, screen, waitFor } from "@testing-library/react";
import { afterEach, expect, test, vi } from "vitest";
import { LoginPage } from "../src/pages/login";
import type { SessionFacts } from "../src/shapes";

const session = (enabled: boolean): SessionFacts => ({
  enabled,
  authenticated: false,
  version: "0.1.0",
  requires: ["KAFSCALE_UI_USERNAME", "KAFSCALE_UI_PASSWORD"],
  username: null,
  read_only: null,
  values_hidden: null,
  features: null,
  has_bucket: null,
  has_sql: null,
  has_weeks: null,
  store: null,
  as_of_ms: null,
});

afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

function logIn() {
  fireEvent.change(screen.getByLabelText("Username"), { target: { value: "admin" } });
  fireEvent.change(screen.getByLabelText("Password"), { target: { value: "guess" } });
  fireEvent.click(screen.getByRole("button", { name: "Log in" }));
}

const refusal = (status: number, headers = {}) =>
  new Response(JSON.stringify({ error: { code: "x", message: "from the server" } }), {
    status,
    headers,
  });

test("without credentials the form is disabled and names both variables", () => {
  render(<LoginPage session={session(false)} expired={false} onLogin={() => undefined} />);
  const alert = screen.getByRole("alert");
  expect(alert.textContent).toContain("UI access is disabled until both");
  expect(alert.textContent).toContain("KAFSCALE_UI_USERNAME");
  expect(alert.textContent).toContain("KAFSCALE_UI_PASSWORD");
  for (const name of ["Username", "Password"])
    expect((screen.getByLabelText(name) as HTMLInputElement).disabled).toBe(true);
  expect(screen.queryByText("Show")).toBeNull();
});

test("a wrong password is said, and the field is empty again", async () => {
  vi.stubGlobal("fetch", async () => refusal(401));
  const done = vi.fn();
  render(<LoginPage session={session(true)} expired={false} onLogin={done} />);
  logIn();
  await waitFor(() => expect(screen.getByRole("alert").textContent).toContain("wrong"));
  expect((screen.getByLabelText("Password") as HTMLInputElement).value).toBe("");
  expect(done).not.toHaveBeenCalled();
});

test("too many attempts: the form waits as long as the server says", async () => {
  vi.stubGlobal("fetch", async () => refusal(429, { "Retry-After": "4" }));
  render(<LoginPage session={session(true)} expired={false} onLogin={() => undefined} />);
  logIn();
  await waitFor(() => expect(screen.getByRole("alert").textContent).toContain("in 4 s"));
  const button = screen.getByRole("button", { name: "Log in" }) as HTMLButtonElement;
  expect(button.disabled).toBe(true);
});
