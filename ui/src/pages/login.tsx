// The login: always the first thing, wherever one wanted to go. It keeps the address, so that
// the page one asked for appears after it.
import { type FormEvent, useEffect, useRef, useState } from "react";
import { ApiError, change } from "../api/client";
import mark from "../design/mark.svg?url";
import "../design/login.css";
import { Icon } from "../parts/icons";
import type { SessionFacts as Session } from "../shapes";

type Props = { session: Session; expired: boolean; onLogin: () => void };

export function LoginPage({ session, expired, onLogin }: Props) {
  return (
    <div className="login">
      <Scene />
      <div className="login-words">
        <h1>Kafka topics in a bucket.</h1>
        <p>
          What is in them, who reads them and how far behind, what lies in the bucket, and what it
          costs.
        </p>
      </div>
      <main className="login-card">
        <div className="login-brand">
          <img src={mark} alt="" />
          <div>
            <h2>Kafscale Console</h2>
            {session.enabled && <p className="soft">Log in to go on</p>}
          </div>
        </div>
        <LoginForm session={session} expired={expired} onLogin={onLogin} />
        <p className="login-foot">Kafscale {session.version}</p>
      </main>
    </div>
  );
}

function LoginForm({ session, expired, onLogin }: Props) {
  const [username, setUsername] = useState("");
  const [password, setPassword] = useState("");
  const [shown, setShown] = useState(false);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState("");
  const waitS = useCountdown();
  const passwordField = useRef<HTMLInputElement>(null);
  const locked = !session.enabled;

  async function submit(event: FormEvent) {
    event.preventDefault();
    if (locked || busy || waitS.left > 0) return;
    setBusy(true);
    setProblem("");
    try {
      await change("POST", "session", { username, password });
      onLogin();
    } catch (error) {
      setBusy(false);
      setPassword("");
      if (error instanceof ApiError && error.status === 429) waitS.begin(error.retryAfterS ?? 1);
      else if (error instanceof ApiError && error.status === 401)
        setProblem("The username or the password is wrong.");
      else setProblem(error instanceof Error ? error.message : String(error));
      passwordField.current?.focus();
    }
  }

  const message = waitS.left > 0 ? `Too many attempts. Try again in ${waitS.left} s.` : problem;
  return (
    <form onSubmit={submit}>
      {locked && <Disabled requires={session.requires} />}
      {!locked && expired && message === "" && (
        <div className="alert" role="status">
          <Icon name="info" />
          <p>Your session has ended. Log in again and you are back where you were.</p>
        </div>
      )}
      {!locked && message !== "" && (
        <div
          className={waitS.left > 0 ? "alert warn" : "alert bad"}
          role="alert"
          id="login-problem"
        >
          <Icon name={waitS.left > 0 ? "warning" : "error"} />
          <p>{message}</p>
        </div>
      )}
      <div className="field">
        <label htmlFor="username">Username</label>
        <input
          id="username"
          className="input"
          autoComplete="username"
          autoCapitalize="none"
          spellCheck={false}
          // biome-ignore lint/a11y/noAutofocus: the page is this form and nothing else
          autoFocus={!locked}
          required
          disabled={locked}
          value={username}
          onChange={(event) => setUsername(event.target.value)}
        />
      </div>
      <div className="field">
        <label htmlFor="password">Password</label>
        <div className="login-password">
          <input
            id="password"
            ref={passwordField}
            className="input"
            type={shown ? "text" : "password"}
            autoComplete="current-password"
            required
            disabled={locked}
            aria-invalid={problem !== ""}
            aria-describedby={message === "" ? undefined : "login-problem"}
            value={password}
            onChange={(event) => setPassword(event.target.value)}
          />
          {!locked && (
            <button
              type="button"
              className="button quiet"
              aria-pressed={shown}
              aria-controls="password"
              onClick={() => setShown(!shown)}
            >
              {shown ? "Hide" : "Show"}
              <span className="visually-hidden"> password</span>
            </button>
          )}
        </div>
      </div>
      <button type="submit" className="button primary" disabled={locked || busy || waitS.left > 0}>
        {busy ? "Logging in…" : "Log in"}
      </button>
    </form>
  );
}

function Disabled({ requires }: { requires: string[] }) {
  const names = requires.length > 0 ? requires : ["KAFSCALE_UI_USERNAME", "KAFSCALE_UI_PASSWORD"];
  return (
    <div className="alert warn" role="alert">
      <Icon name="warning" />
      <p>
        UI access is disabled until both{" "}
        {names.map((name, at) => (
          <span key={name}>
            {at > 0 && " and "}
            <code>{name}</code>
          </span>
        ))}{" "}
        are set and the console is started again.
      </p>
    </div>
  );
}

function useCountdown() {
  const [left, setLeft] = useState(0);
  useEffect(() => {
    if (left <= 0) return;
    const timer = setTimeout(() => setLeft(left - 1), 1000);
    return () => clearTimeout(timer);
  }, [left]);
  return { left, begin: (seconds: number) => setLeft(Math.ceil(seconds)) };
}

/** Rows of segments, as they lie in a bucket: made of numbers, so that it weighs nothing. */
function Scene() {
  const segments = [];
  for (let row = 0; row < 15; row += 1) {
    let x = -40 - ((row * 53) % 90);
    for (let at = 0; x < 1640; at += 1) {
      const width = 26 + ((row * 37 + at * 61) % 7) * 26;
      const tone = (row * 5 + at * 3) % 11;
      segments.push(
        <rect
          key={`${row}-${at}`}
          x={x}
          y={18 + row * 60}
          width={width}
          height={34}
          rx={7}
          fill={tone === 0 ? "#ffb454" : "#3ecfc0"}
          opacity={tone === 0 ? 0.34 : 0.035 + (tone % 6) * 0.028}
        />,
      );
      x += width + 9;
    }
  }
  return (
    <svg
      className="login-scene"
      viewBox="0 0 1440 900"
      preserveAspectRatio="xMidYMid slice"
      aria-hidden="true"
    >
      <defs>
        <linearGradient id="shade" x1="0" y1="1" x2="1" y2="0">
          <stop offset="0" stopColor="#0a1220" />
          <stop offset="0.5" stopColor="#0a1220" stopOpacity="0.72" />
          <stop offset="1" stopColor="#0a1220" stopOpacity="0" />
        </linearGradient>
      </defs>
      <g className="drift">{segments}</g>
      <rect width="1440" height="900" fill="url(#shade)" />
    </svg>
  );
}
