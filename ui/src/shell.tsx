// The frame around every page: navigation, the bar on top, and which page an address means.
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { Link, Redirect, Route, Router, Switch, useLocation } from "wouter";
import { ApiError, sessionEnd } from "./api/client";
import { SessionProvider, useGet } from "./api/use";
import mark from "./design/mark.svg?url";
import "./design/app.css";
import { Empty, Loading, StateWord } from "./parts/basics";
import { Icon, type IconName } from "./parts/icons";
import { KeysHelp, useKeys } from "./parts/keys";
import { late } from "./parts/late";
import { Palette } from "./parts/palette";
import { preferences, type Theme, usePreferences } from "./parts/preferences";
import { Menu } from "./parts/table";
import type { SessionFacts } from "./shapes";
import { clock } from "./text/format";

const Overview = late(() => import("./pages/overview"), <Loading />);
const Topics = late(() => import("./pages/topics"), <Loading />);
const Topic = late(() => import("./pages/topic"), <Loading />);
const Groups = late(() => import("./pages/groups"), <Loading />);
const Group = late(() => import("./pages/group"), <Loading />);
const Fleet = late(() => import("./pages/fleet"), <Loading />);
const Broker = late(() => import("./pages/broker"), <Loading />);
const Storage = late(() => import("./pages/storage"), <Loading />);
const ObjectPage = late(() => import("./pages/object"), <Loading />);
const Cost = late(() => import("./pages/cost"), <Loading />);
const Snapshots = late(() => import("./pages/snapshots"), <Loading />);
const Pipeline = late(() => import("./pages/pipeline"), <Loading />);
const Sql = late(() => import("./pages/sql"), <Loading />);
const Activity = late(() => import("./pages/activity"), <Loading />);
const Access = late(() => import("./pages/access"), <Loading />);
const Transactions = late(() => import("./pages/transactions"), <Loading />);
const Subscriptions = late(() => import("./pages/subscriptions"), <Loading />);

export type Place = { path: string; title: string; icon: IconName; keys?: string };

/** Where one can go: what brokers do not have is not shown. */
function places(session: SessionFacts): Place[] {
  const has = (feature: string) => session.features?.includes(feature) ?? false;
  const all: (Place | false)[] = [
    { path: "/", title: "Overview", icon: "overview", keys: "g o" },
    { path: "/topics", title: "Topics", icon: "topics", keys: "g t" },
    { path: "/groups", title: "Groups", icon: "groups", keys: "g g" },
    (has("pulsar") || has("fluvio")) && {
      path: "/subscriptions",
      title: "Subscriptions",
      icon: "subscriptions" as const,
    },
    has("transactions") && {
      path: "/transactions",
      title: "Transactions",
      icon: "transactions" as const,
    },
    { path: "/fleet", title: "Fleet", icon: "fleet", keys: "g f" },
    { path: "/storage", title: "Storage", icon: "storage", keys: "g s" },
    { path: "/snapshots", title: "Snapshots", icon: "snapshots" },
    { path: "/cost", title: "Cost", icon: "cost", keys: "g c" },
    { path: "/pipeline", title: "Pipeline", icon: "pipeline", keys: "g p" },
    session.has_sql === true && { path: "/sql", title: "SQL", icon: "sql" as const },
    (has("acls") || has("users") || has("quotas")) && {
      path: "/access",
      title: "Access",
      icon: "users" as const,
    },
    { path: "/activity", title: "Activity", icon: "activity", keys: "g a" },
  ];
  return all.filter((place) => place !== false);
}

type Props = { session: SessionFacts; onLogOut: () => Promise<void> };

/** What was read is known to one session only: the next login begins with nothing. */
function newClient(): QueryClient {
  return new QueryClient({
    defaultOptions: {
      queries: {
        staleTime: 2000,
        retry: (failures, error) =>
          failures < 1 && error instanceof ApiError && (error.status === 0 || error.status >= 500),
      },
    },
  });
}

/** The path of <base>, without its last slash: what a proxy put before all addresses. */
function basePath(): string {
  return new URL(document.baseURI).pathname.replace(/\/$/, "");
}

export default function Shell(props: Props) {
  const [client] = useState(newClient);
  return (
    <QueryClientProvider client={client}>
      <Router base={basePath()}>
        <Frame {...props} />
      </Router>
    </QueryClientProvider>
  );
}

function Frame({ session, onLogOut }: Props) {
  const [open, setOpen] = useState(false);
  const [finding, setFinding] = useState(false);
  const [help, setHelp] = useState(false);
  const all = places(session);
  const [location] = useLocation();
  useKeys(all, { find: () => setFinding(true), help: () => setHelp(true) });

  // biome-ignore lint/correctness/useExhaustiveDependencies: another page closes the navigation
  useEffect(() => setOpen(false), [location]);
  useEffect(() => {
    document.title = `${titleOf(location, all)} · Kafscale Console`;
  }, [location, all]);

  return (
    <SessionProvider value={session}>
      <div className="shell">
        <button type="button" className="skip button primary" onClick={toMain}>
          Skip to content
        </button>
        <Navigation all={all} open={open} session={session} />
        <div>
          <Top
            all={all}
            session={session}
            open={open}
            onOpen={() => setOpen(!open)}
            onFind={() => setFinding(true)}
            onHelp={() => setHelp(true)}
            onLogOut={onLogOut}
          />
          {session.read_only === true && (
            <p className="banner">
              This console is read-only: <code>console.readOnly</code> is true.
            </p>
          )}
          <main className="main" id="main" tabIndex={-1}>
            <Pages session={session} />
          </main>
        </div>
      </div>
      {finding && <Palette places={all} onClose={() => setFinding(false)} />}
      {help && <KeysHelp places={all} onClose={() => setHelp(false)} />}
    </SessionProvider>
  );
}

// No link: <base> would send "#main" to the first page.
function toMain() {
  document.getElementById("main")?.focus();
}

function titleOf(location: string, all: Place[]): string {
  const parts = location.split("/").filter((part) => part !== "");
  const place = all.find((one) => one.path === `/${parts[0] ?? ""}`);
  const name = parts[0] === "topics" && parts[1] !== undefined ? decodeURIComponent(parts[1]) : "";
  return [name, place?.title ?? "Not found"].filter((one) => one !== "").join(" · ");
}

function Pages({ session }: { session: SessionFacts }) {
  return (
    <Switch>
      <Route path="/" component={Overview} />
      <Route path="/topics" component={Topics} />
      <Route path="/topics/:name/:tab?">
        {(params) => (
          <Topic
            key={params.name}
            name={decodeURIComponent(params.name)}
            tab={params.tab ?? "messages"}
          />
        )}
      </Route>
      <Route path="/groups" component={Groups} />
      <Route path="/groups/group/:tab?">{(params) => <Group tab={params.tab ?? "lag"} />}</Route>
      <Route path="/fleet" component={Fleet} />
      <Route path="/fleet/:id">{(params) => <Broker id={params.id} />}</Route>
      <Route path="/storage" component={Storage} />
      <Route path="/object" component={ObjectPage} />
      <Route path="/cost" component={Cost} />
      <Route path="/snapshots" component={Snapshots} />
      <Route path="/pipeline/:run?">{(params) => <Pipeline run={params.run ?? ""} />}</Route>
      <Route path="/sql">{() => (session.has_sql ? <Sql /> : <Redirect to="/" />)}</Route>
      <Route path="/activity" component={Activity} />
      <Route path="/access" component={Access} />
      <Route path="/transactions" component={Transactions} />
      <Route path="/subscriptions" component={Subscriptions} />
      <Route>
        <Empty icon="find" title="There is no such page">
          <p>
            <Link href="/">Go to the overview</Link>
          </p>
        </Empty>
      </Route>
    </Switch>
  );
}

function Navigation({
  all,
  open,
  session,
}: {
  all: Place[];
  open: boolean;
  session: SessionFacts;
}) {
  const [location] = useLocation();
  const at = `/${location.split("/")[1] ?? ""}`;
  return (
    <nav className="nav" id="navigation" data-open={open} aria-label="Pages">
      <Link href="/" className="nav-brand">
        <img src={mark} alt="" /> Kafscale
      </Link>
      <ul>
        {all.map((place) => (
          <li key={place.path}>
            <Link href={place.path} aria-current={at === place.path ? "page" : undefined}>
              <Icon name={place.icon} /> {place.title}
            </Link>
          </li>
        ))}
      </ul>
      <p className="nav-foot">Kafscale {session.version}</p>
    </nav>
  );
}

function Top({
  all,
  session,
  open,
  onOpen,
  onFind,
  onHelp,
  onLogOut,
}: Props & {
  all: Place[];
  open: boolean;
  onOpen: () => void;
  onFind: () => void;
  onHelp: () => void;
}) {
  return (
    <header className="top">
      <button
        type="button"
        className="button quiet icon nav-toggle"
        aria-label="Navigation"
        aria-expanded={open}
        aria-controls="navigation"
        onClick={onOpen}
      >
        <Icon name={open ? "close" : "menu"} />
      </button>
      <Crumbs all={all} />
      <Health session={session} />
      <button
        type="button"
        className="button top-find"
        onClick={onFind}
        aria-keyshortcuts="Control+K"
      >
        <Icon name="find" size={16} />
        <span>Find</span>
        <kbd>Ctrl K</kbd>
      </button>
      <UserMenu session={session} onHelp={onHelp} onLogOut={onLogOut} />
    </header>
  );
}

function Health({ session }: { session: SessionFacts }) {
  const { zone } = usePreferences();
  const { data = session, error } = useGet<SessionFacts>("session", { first: session });
  useEffect(() => {
    if (!data.authenticated) sessionEnd.dispatchEvent(new Event("end"));
  }, [data.authenticated]);
  if (error !== null) return <StateWord state="unavailable" label="Server does not answer" />;
  const label = data.store === null ? "Store not known" : `Store ${data.store}`;
  return (
    <>
      <StateWord state={data.store} label={label} />
      {data.as_of_ms !== null && data.as_of_ms > 0 && (
        <span className="as-of faint">as of {clock(data.as_of_ms, zone)}</span>
      )}
    </>
  );
}

function Crumbs({ all }: { all: Place[] }) {
  const [location] = useLocation();
  const parts = location.split("/").filter((part) => part !== "");
  const first = parts[0] ?? "overview";
  const rest = parts[1] === "group" ? "" : parts[1];
  const place = all.find((one) => one.path === (parts.length === 0 ? "/" : `/${first}`));
  const title = place?.title ?? first.charAt(0).toUpperCase() + first.slice(1);
  return (
    <nav aria-label="Where you are" className="crumbs">
      <ol className="crumbs">
        <li>
          {rest === undefined ? <span>{title}</span> : <Link href={`/${first}`}>{title}</Link>}
        </li>
        {rest !== undefined && (
          <li>
            <span>{rest === "" ? <GroupName /> : decodeURIComponent(rest)}</span>
          </li>
        )}
      </ol>
    </nav>
  );
}

function GroupName() {
  return <>{new URLSearchParams(window.location.search).get("id") ?? "group"}</>;
}

function UserMenu({ session, onHelp, onLogOut }: Props & { onHelp: () => void }) {
  const { theme, zone, keys } = usePreferences();
  return (
    <Menu label="You and this browser" icon="user" quiet iconOnly>
      {session.username !== null && (
        <p className="label user-name">Logged in as {session.username}</p>
      )}
      <fieldset>
        <legend>Colours</legend>
        {(["system", "light", "dark"] as Theme[]).map((one) => (
          <label key={one} className="check">
            <input
              type="radio"
              name="theme"
              checked={theme === one}
              onChange={() => preferences.set({ theme: one })}
            />
            {one === "system" ? "As the system" : one === "light" ? "Light" : "Dark"}
          </label>
        ))}
      </fieldset>
      <fieldset>
        <legend>Times</legend>
        {(["local", "utc"] as const).map((one) => (
          <label key={one} className="check">
            <input
              type="radio"
              name="zone"
              checked={zone === one}
              onChange={() => preferences.set({ zone: one })}
            />
            {one === "local" ? "Local" : "UTC"}
          </label>
        ))}
      </fieldset>
      <fieldset>
        <legend>Keys</legend>
        <label className="check">
          <input type="checkbox" checked={keys} onChange={() => preferences.set({ keys: !keys })} />
          Single letters go places
        </label>
      </fieldset>
      <hr />
      <button type="button" className="button" onClick={onHelp}>
        Keyboard help
      </button>
      <button type="button" className="button" onClick={() => void onLogOut()}>
        Log out
      </button>
    </Menu>
  );
}
