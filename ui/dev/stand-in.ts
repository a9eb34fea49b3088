// A stand-in of the API with sample data, for working on the pages without a broker: `npm run dev`.
// Never shipped and never tested against: the tests use the real server. Set
// KAFSCALE_CONSOLE_URL to send the calls to a real console instead.
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Plugin } from "vite";
import * as sample from "./samples.ts";

type Answer = (url: URL, body: unknown) => unknown;

const GET: Record<string, Answer> = {
  overview: sample.overview,
  topics: sample.topics,
  groups: sample.groups,
  group: sample.group,
  series: sample.series,
  fleet: sample.fleet,
  store: sample.store,
  cost: sample.cost,
  snapshots: sample.snapshots,
  jobs: sample.jobs,
  activity: sample.activity,
  users: sample.users,
  acls: sample.acls,
  subscriptions: sample.subscriptions,
  transactions: sample.transactions,
  objects: sample.object,
};

const PARTS: [RegExp, Answer][] = [
  [/^topics\/([^/]+)$/, sample.topic],
  [/^topics\/([^/]+)\/partitions$/, sample.partitions],
  [/^topics\/([^/]+)\/configs$/, sample.configs],
  [/^topics\/([^/]+)\/objects$/, sample.objects],
  [/^brokers\/(\d+)$/, sample.broker],
  [/^jobs\/(.+)$/, sample.job],
];

let isLoggedIn = process.env.STAND_IN !== "login";

export function standIn(): Plugin {
  const real = process.env.KAFSCALE_CONSOLE_URL;
  return {
    name: "kafscale-stand-in",
    config: () =>
      real === undefined
        ? {}
        : { server: { proxy: { "/api": { target: real, changeOrigin: true } } } },
    configureServer(server) {
      if (real !== undefined) return;
      server.middlewares.use("/api/v1/", (request, response) => void answer(request, response));
    },
  };
}

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const url = new URL(request.url ?? "/", "http://stand-in");
  const path = url.pathname.slice(1);
  const body = await read(request);
  if (path === "session") return session(request.method ?? "GET", body, response);
  if (path.endsWith(":search")) return events(response, sample.search());
  if (path.endsWith(":tail")) return events(response, sample.tail());
  if (request.method !== "GET") return json(response, 200, sample.changed(path));
  const found = GET[path] ?? PARTS.find(([pattern]) => pattern.test(path))?.[1];
  if (found === undefined)
    return json(response, 404, {
      error: {
        code: "unknown_path",
        message: `The stand-in has no ${path}`,
        retry: false,
        request_id: "0",
      },
    });
  return json(response, 200, found(url, body));
}

function session(method: string, body: unknown, response: ServerResponse): void {
  if (method === "GET") {
    json(response, 200, sample.session(isLoggedIn));
    return;
  }
  isLoggedIn = method === "POST" && (body as { password?: string }).password !== "wrong";
  if (isLoggedIn || method === "DELETE") {
    response.statusCode = 204;
    response.end();
  } else
    json(response, 401, {
      error: { code: "wrong", message: "wrong", retry: false, request_id: "0" },
    });
}

function json(response: ServerResponse, status: number, value: unknown): void {
  response.statusCode = status;
  response.setHeader("Content-Type", "application/json");
  response.end(JSON.stringify(value));
}

function events(response: ServerResponse, all: [string, unknown][]): void {
  response.setHeader("Content-Type", "text/event-stream");
  for (const [event, data] of all)
    response.write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
  response.end();
}

async function read(request: IncomingMessage): Promise<unknown> {
  let text = "";
  for await (const piece of request) text += String(piece);
  return text === "" ? {} : JSON.parse(text);
}
