// Sample data of the stand-in. It has the shapes of the API and nothing else in common with it.

const now = () => Date.now();
const NAMES = [
  "orders",
  "payments",
  "clicks.v2",
  "invoices",
  "audit-trail",
  "sessions",
  "email-out",
];

export const session = (authenticated: boolean) => ({
  enabled: process.env.STAND_IN !== "disabled",
  authenticated: authenticated && process.env.STAND_IN !== "disabled",
  version: "0.1.0",
  requires: ["KAFSCALE_UI_USERNAME", "KAFSCALE_UI_PASSWORD"],
  username: "admin",
  read_only: false,
  values_hidden: false,
  features: ["acls", "users", "quotas", "pulsar", "transactions"],
  has_bucket: true,
  has_sql: true,
  has_weeks: false,
  store: "healthy",
  as_of_ms: now(),
});

function row(name: string, at: number) {
  const isShared = at === 3;
  return {
    name,
    topic_id: `Zx${at}k0Fq`,
    internal: false,
    partitions: [12, 6, 48, 2, 1, 4, 1][at] ?? 1,
    layout: isShared ? "shared" : at === 0 ? "virtual" : "ordinary",
    logs: at === 0 ? 3 : 1,
    records: 41_220_118 / (at * at + 1),
    bytes: at === 5 ? null : Math.round(9.1 * 2 ** 30) / (at * 3 + 1),
    in_per_s: 1_200_000 / (at * 8 + 1),
    out_per_s: 3_400_000 / (at * 9 + 1),
    puts_per_s: isShared ? 0.4 : 12 / (at + 1),
    puts_are_a_share: isShared,
    groups: at % 3,
    worst_lag: at % 3 === 0 ? null : 12_040,
    worst_lag_s: at % 3 === 0 ? null : 840,
    cost_month: isShared ? 0.07 : 20.99 / (at + 1),
    cost_is_a_share: isShared,
    moving_to: isShared ? "shared" : null,
    unknown: at === 5 ? { bytes: "broker 3 does not answer" } : {},
  };
}

const rows = () => NAMES.map(row).map((one) => ({ ...one, records: Math.round(one.records) }));
export const topics = () => ({ items: rows(), after: null, total: NAMES.length, as_of_ms: now() });
export const topic = (url: URL) => {
  const name = decodeURIComponent(url.pathname.split("/")[2] ?? "");
  return rows().find((one) => one.name === name) ?? row(name, 1);
};

function groupRow(id: string, lag: number) {
  return {
    id,
    kind: "kafka",
    state: lag === 7 ? "Empty" : "Stable",
    members: lag === 7 ? 0 : 3,
    lag,
    lag_s: lag === 0 ? 0 : lag / 14,
    lag_s_is_at_least: lag === 7,
    trend_per_s: lag > 10_000 ? 31 : lag === 0 ? 0 : -4,
    catch_up_s: lag > 10_000 ? null : lag / 4,
    topics: ["orders", "payments"],
    unknown: {},
  };
}

export const groups = () => ({
  items: [
    groupRow("billing", 12_040),
    groupRow("search-indexer", 300),
    groupRow("a/b", 7),
    groupRow("mailer", 0),
  ],
  after: null,
  total: 4,
  as_of_ms: now(),
});

export const group = (url: URL) => ({
  ...groupRow(url.searchParams.get("id") ?? "billing", 12_040),
  assignor: "cooperative-sticky",
  coordinator: 1,
  members: [1, 2, 3].map((at) => ({
    member: `billing-${at}-9b1c5f5e`,
    instance: null,
    client: `billing-${at}`,
    host: "/10.0.0.7",
    partitions: 4,
  })),
  partitions: Array.from({ length: 12 }, (_, partition) => ({
    topic: "orders",
    partition,
    committed: String(3_434_000 + partition * 17),
    end: "3435009",
    lag: 1009 - partition * 17,
    lag_s: 60 + partition * 70,
    lag_s_is_at_least: false,
    member: "billing-1-9b1c5f5e",
    client: "billing-1",
    host: "/10.0.0.7",
  })),
  as_of_ms: now(),
});

const strip = () => [
  { at_ms: now() - 3_600_000, state: "healthy" },
  { at_ms: now() - 1_500_000, state: "degraded" },
  { at_ms: now() - 1_200_000, state: "healthy" },
  { at_ms: now() - 700_000, state: "unavailable" },
  { at_ms: now() - 640_000, state: "healthy" },
];

export const overview = () => ({
  as_of_ms: now(),
  store: "healthy",
  store_strip: strip(),
  put_p99_ms: 38,
  brokers: 3,
  brokers_ready: 3,
  controller: 2,
  topics: NAMES.length,
  partitions: 74,
  groups: 4,
  rates: {
    puts_per_s: 12,
    gets_per_s: 1,
    in_bytes_per_s: 1e6,
    out_bytes_per_s: 3e6,
    in_records_per_s: 1,
    out_records_per_s: 2,
  },
  currency: "USD",
  cost_month: 22.31,
  findings: [
    {
      severity: "warning",
      kind: "lag",
      text: "billing is 14 min behind on orders and falls back",
      topic: null,
      group: "billing",
      broker: null,
      saving_month: null,
    },
    {
      severity: "info",
      kind: "share",
      text: "37 topics would cost 961 USD less in shared logs",
      topic: null,
      group: null,
      broker: null,
      saving_month: 961,
    },
  ],
  expensive_topics: rows()
    .slice(0, 4)
    .map((one) => ({ topic: one.name, month: one.cost_month, is_share: one.cost_is_a_share })),
  worst_groups: [groupRow("billing", 12_040), groupRow("search-indexer", 300)],
  unknown: {},
});

export const series = (url: URL) => {
  const names = (url.searchParams.get("names") ?? "").split(",");
  const labels = JSON.parse(url.searchParams.get("labels") || "{}");
  const t = Array.from({ length: 360 }, (_, at) => now() - (360 - at) * 10_000);
  const wave = (size: number, at: number) =>
    Math.max(0, size * (1 + 0.3 * Math.sin(at / 20) + 0.1 * Math.sin(at * 1.7)));
  const operations =
    names[0]?.startsWith("requests") || names[0]?.startsWith("latency")
      ? ["put", "get", "list"]
      : [""];
  const lines = names.flatMap((name, i) =>
    operations
      .filter((operation) => labels.operation === undefined || labels.operation === operation)
      .map((operation, j) => ({
        name,
        labels: operation === "" ? labels : { operation },
        v: t.map((_, at) =>
          at > 100 && at < 112
            ? null
            : wave(((name.includes("bytes") ? 1e6 : 12) * (i + 1)) / (j * 3 + 1), at + i * 40),
        ),
      })),
  );
  return { t, step_s: 10, lines };
};

const broker1 = (id: number) => ({
  id,
  address: `broker-${id}:9092`,
  rack: null,
  controller: id === 2,
  ready: id === 3 ? null : true,
  reasons: [],
  version: id === 3 ? null : "0.1.0",
  features: ["acls"],
  up_s: 260_000,
  leaders: 24,
  logs: 14,
  groups: 5,
  connections: 211,
  cpu: 0.12,
  memory_bytes: 180e6,
  unknown:
    id === 3 ? { ready: "broker 3 does not answer", version: "broker 3 does not answer" } : {},
});
const logs = () =>
  ["@shared/0", "orders/0", "orders/1", "orders/2"].map((log, at) => ({
    log,
    owner: (at % 3) + 1,
    lanes: at === 0 ? 412 : 4,
    end: "8812330",
    tail_objects: 38,
    live_bytes: 1.2e9,
    dead_bytes: at === 0 ? 4e7 : null,
    puts_per_s: 4,
  }));
export const fleet = () => ({
  as_of_ms: now(),
  cluster_id: "kafscale-7Qx",
  generation: 41,
  controller: 2,
  hand_overs: 3,
  brokers: [1, 2, 3].map(broker1),
  logs: logs(),
  logs_total: 14,
  moves: [{ topic: "invoices", phase: "copying", to: "shared" }],
  unknown: {},
});
export const broker = () => ({
  broker: broker1(2),
  configs: [{ name: "kafscale.version", value: "0.1.0", source: "broker", read_only: true }],
  logs: logs(),
});

export const store = () => ({
  as_of_ms: now(),
  place: "s3://my-bucket",
  namespace: "default",
  state: "healthy",
  strip: strip(),
  operations: ["put", "get", "head", "list", "delete"].map((operation, at) => ({
    operation,
    per_s: 12 / (at + 1),
    p50_ms: at === 2 ? null : 21,
    p99_ms: at === 2 ? null : 38,
    errors_per_s: 0,
    total: 120_000 / (at + 1),
  })),
  checkpoint_age_s: 41,
  shared_logs: [{ log: "@shared/0", live_bytes: 1.2e9, dead_bytes: 4e8, lanes: 412 }],
  own: { requests: { get: 40, list: 12 }, bytes: 123_456, money: 0.0001 },
  unknown: {},
});

const costRow = (topic: string, month: number) => ({
  topic,
  requests: { put: 25_600, get: 51_200, head: 0, list: 2880, delete: 26 },
  written_bytes: 1e11,
  read_bytes: 1e11,
  stored_bytes: topic === "@store" ? null : 7e11,
  day: month / 30,
  month,
  requests_month: month * 0.7,
  transfer_month: 0,
  storage_month: topic === "@store" ? null : month * 0.3,
});
export const cost = () => ({
  as_of_ms: now(),
  currency: "USD",
  window: "since start",
  window_s: 260_000,
  prices: { storage_gb_month: 0.023, put_1000: 0.005, get_1000: 0.0004 },
  items: [
    costRow("orders", 20.99),
    costRow("@shared", 4.1),
    costRow("@store", 1.33),
    costRow("@console", 0.01),
  ],
  total: costRow("all", 26.43),
  shared: [{ topic: "invoices", stored_bytes: 310_000, share: 0.02, month: 0.07 }],
  advice: [
    {
      kind: "flush_less_often",
      text: "Flush every 2 s: a quarter of the PUTs",
      saving_month: 14.2,
      topics: ["orders"],
    },
  ],
  unknown: {},
});

export const snapshots = () => ({
  items: [
    {
      name: "model-7",
      taken_ms: now() - 9e7,
      expires_ms: now() + 5e8,
      expired: false,
      topics: ["orders", "payments"],
      records: 40_000_000,
      bytes: 9e9,
      month: 0.21,
    },
  ],
  unknown: {},
});
const run = (state: string, at: number) => ({
  id: `audit-${at}`,
  job: "audit",
  started_ms: now() - at * 3.6e6,
  ended_ms: state === "running" ? null : now() - at * 3.6e6 + 42_000,
  state,
  exit_code: state === "failed" ? 1 : state === "running" ? null : 0,
  facts: { logs: 74, errors: 0, warnings: 2 },
});
export const jobs = () => ({
  items: [run("running", 0), run("done", 1), run("failed", 2)],
  unknown: {},
});
export const job = () => ({
  run: run("done", 1),
  report: { rows: [{ log: "orders/0", problem: null }] },
});
export const activity = () => ({
  items: [
    {
      at_ms: now() - 1e4,
      user: "admin",
      address: "127.0.0.1",
      action: "create_topic",
      resource: "topics/invoices",
      outcome: "ok",
      request_id: "8f2c",
    },
    {
      at_ms: now() - 9e4,
      user: "admin",
      address: "127.0.0.1",
      action: "delete_topic",
      resource: "topics/x",
      outcome: "unknown_topic",
      request_id: "8f2b",
    },
  ],
});
export const users = () => ({
  items: [{ name: "alice", mechanisms: ["SCRAM-SHA-256", "SCRAM-SHA-512"] }],
});
export const acls = () => ({
  items: [
    {
      principal: "User:alice",
      host: "*",
      operation: "READ",
      permission: "ALLOW",
      resource_type: "TOPIC",
      resource: "orders",
      pattern: "LITERAL",
    },
  ],
});
export const subscriptions = () => ({
  items: [
    {
      name: "reports",
      door: "pulsar",
      topic: "orders",
      partition: 0,
      committed: "120",
      end: "180",
      lag: 60,
    },
  ],
});
export const transactions = () => ({
  items: [
    {
      transactional_id: "payments-1",
      producer_id: "4611686018427387000",
      state: "Ongoing",
      coordinator: 1,
    },
  ],
});

export const partitions = (url: URL) => ({
  items: Array.from({ length: topic(url).partitions }, (_, partition) => ({
    partition,
    leader: (partition % 3) + 1,
    log: `orders/${partition % 3}`,
    lane: Math.floor(partition / 3),
    earliest: "0",
    latest: "3435009",
    records: 3_435_009,
    objects: 128,
    bytes: 7.6e8,
  })),
  after: null,
  total: topic(url).partitions,
  as_of_ms: now(),
  unknown: {},
});
export const configs = () => ({
  items: [
    {
      name: "retention.ms",
      value: "604800000",
      default: "604800000",
      source: "default",
      type: "long",
      doc: "How long records stay.",
      read_only: false,
      sensitive: false,
    },
    {
      name: "cleanup.policy",
      value: "compact",
      default: "delete",
      source: "topic",
      type: "list",
      doc: "Whether old records are deleted, or compacted by key.",
      read_only: false,
      sensitive: false,
    },
  ],
});
export const objects = () => ({
  logs: ["orders/0", "orders/1"],
  log: "orders/0",
  layout: "ordinary",
  items: Array.from({ length: 40 }, (_, at) => ({
    kind: at < 8 ? "history" : "flush",
    key: `default/orders/0/segment-${String(at * 1000).padStart(20, "0")}.kfs`,
    first: String(at * 1000),
    last: String(at * 1000 + 999),
    records: 1000,
    bytes: at < 8 ? 1e8 - at * 1e6 : 9000 + ((at * 7919) % 90_000),
    written_ms: now() - (at < 8 ? 3e8 - at * 3e7 : (41 - at) ** 2 * 900),
    lanes: at < 8 ? 1 : 4,
  })),
  after: null,
  total: 40,
  bytes: 8e8,
  leftovers: 12,
  leftover_bytes: 3e6,
  held_until_ms: now() + 86_400_000,
  problems: [],
  as_of_ms: now(),
});
export const object = (url: URL) => ({
  key: url.searchParams.get("key") ?? "",
  kind: "segment",
  bytes: 9211,
  facts: { version: 1, created_ms: now(), checksum: "9f3ac2d1" },
  lanes: [
    {
      lane: 0,
      first: "0",
      last: "11",
      records: 12,
      start: 32,
      bytes: 4000,
      newest_ms: String(now()),
    },
  ],
  batches: [
    {
      lane: 0,
      byte: 32,
      first: "0",
      last: "11",
      records: 12,
      bytes: 4000,
      codec: "zstd",
      newest_ms: String(now()),
      producer_id: "1001",
      producer_epoch: 0,
      sequence: 0,
      transactional: false,
      control: false,
      crc_ok: true,
    },
  ],
  batches_total: 1,
  after: null,
  index: [],
  document: null,
});

const part = (text: string | null, decoder = "json") => ({
  text,
  decoder,
  bytes: text?.length ?? 0,
  cut: false,
  note: null,
});
const record = (at: number) => ({
  partition: at % 3,
  offset: String(41_220_117 - at),
  timestamp_ms: String(now() - at * 240),
  timestamp_type: "create",
  key: part(`c-${(at * 7) % 90}`, "text"),
  value:
    at % 11 === 7
      ? part(null, "text")
      : part(
          `{"id":73314510714175${String(488 + at)},"amount":${120.5 + at},"customer":"c-${(at * 7) % 90}","lines":[{"sku":"A-${at}","n":2}],"paid":true}`,
        ),
  headers: [{ key: "trace", value: "5f3a9c", encoding: "text" }],
  bytes: 312,
});
const progress = {
  looked_at: 250_000,
  of: 41_220_118,
  bytes: 38 * 2 ** 20,
  found: 100,
  seconds: 0.8,
  reached_ms: String(now() - 400_000),
  not_evaluated: 0,
};
export const search = (): [string, unknown][] => [
  ["records", { records: Array.from({ length: 100 }, (_, at) => record(at)), skipped: 0 }],
  ["progress", progress],
  ["end", { reason: "limit", after: "cursor", progress }],
];
export const tail = (): [string, unknown][] => [
  ["records", { records: [record(1)], skipped: 18_200 }],
];

export function changed(path: string): unknown {
  if (path.endsWith(":price"))
    return {
      objects: 38,
      bytes: 412 * 2 ** 20,
      gets: 38,
      money: 0.00002,
      currency: "USD",
      records: 41_220_118,
      unknown: {},
    };
  if (path.endsWith(":what-if"))
    return {
      currency: "USD",
      month: 26.43,
      what_if_month: 12.23,
      items: [],
      assumptions: ["traffic stays as it was in the window"],
    };
  if (path.endsWith(":plan"))
    return {
      plan: "p1",
      rows: [{ topic: "orders", partition: 0, committed: "100", new: "0", lag: 300 }],
      members: [],
    };
  if (path.endsWith("/records"))
    return { items: [{ partition: 0, offset: "3435010", error: null }] };
  return {};
}
