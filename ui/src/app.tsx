// Who may see the pages: asks for the session, shows the login until there is one, then the frame.
import { useCallback, useEffect, useState } from "react";
import { change, get, sessionEnd } from "./api/client";
import { LoginPage } from "./pages/login";
import { late } from "./parts/late";
import type { SessionFacts as Session } from "./shapes";

const Shell = late(() => import("./shell"));

export function App() {
  const [session, setSession] = useState<Session | null>(null);
  const [problem, setProblem] = useState("");
  const [expired, setExpired] = useState(false);

  const ask = useCallback(async () => {
    try {
      setSession(await get<Session>("session"));
      setProblem("");
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
      setTimeout(ask, 3000);
    }
  }, []);

  useEffect(() => {
    void ask();
    const ended = () => {
      setExpired(true);
      void ask();
    };
    // A page that the back button brings from memory asks again who is there.
    const shown = (event: PageTransitionEvent) => event.persisted && void ask();
    sessionEnd.addEventListener("end", ended);
    window.addEventListener("pageshow", shown);
    return () => {
      sessionEnd.removeEventListener("end", ended);
      window.removeEventListener("pageshow", shown);
    };
  }, [ask]);

  const logOut = useCallback(async () => {
    await change("DELETE", "session");
    setExpired(false);
    setSession(await get<Session>("session"));
  }, []);

  if (session === null) return problem === "" ? null : <Unreachable problem={problem} />;
  if (!session.authenticated)
    return (
      <LoginPage
        key={session.enabled ? "enabled" : "disabled"}
        session={session}
        expired={expired}
        onLogin={() => {
          setExpired(false);
          void ask();
        }}
      />
    );
  return <Shell session={session} onLogOut={logOut} />;
}

function Unreachable({ problem }: { problem: string }) {
  return (
    <main className="alone" role="alert">
      <h1>The console does not answer</h1>
      <p className="soft">{problem} This page tries again every three seconds.</p>
    </main>
  );
}
