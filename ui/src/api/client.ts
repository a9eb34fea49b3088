// One way to ask the server: relative to <base>, JSON in and out, errors as one class.

export type ApiProblem = {
  code: string;
  message: string;
  field?: string | null;
  retry?: boolean;
  request_id?: string;
};

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly problem: ApiProblem,
    readonly retryAfterS: number | null = null,
  ) {
    super(problem.message);
  }

  get code(): string {
    return this.problem.code;
  }
}

/** Told when the server says that this session is over. */
export const sessionEnd = new EventTarget();

export function address(path: string): string {
  return new URL(`api/v1/${path}`, document.baseURI).toString();
}

type Method = "GET" | "POST" | "PATCH" | "DELETE";

export async function send(
  method: Method,
  path: string,
  body?: unknown,
  signal?: AbortSignal,
): Promise<Response> {
  const headers: Record<string, string> = { Accept: "application/json" };
  if (method !== "GET") {
    headers["X-Kafscale"] = "1";
    headers["Content-Type"] = "application/json";
  }
  let answer: Response;
  try {
    answer = await fetch(address(path), {
      method,
      headers,
      body: method === "GET" ? undefined : JSON.stringify(body ?? {}),
      signal,
      credentials: "same-origin",
      cache: "no-cache", // the browser asks with the ETag it has
    });
  } catch (problem) {
    if (signal?.aborted) throw problem;
    throw new ApiError(0, {
      code: "unreachable",
      message: "The console's server does not answer. Is it still running?",
      retry: true,
    });
  }
  if (!answer.ok) throw await failure(answer, path);
  return answer;
}

async function failure(answer: Response, path: string): Promise<ApiError> {
  let problem: ApiProblem = { code: "unknown", message: `The server answered ${answer.status}.` };
  try {
    const body = (await answer.json()) as { error?: ApiProblem };
    if (body.error) problem = body.error;
  } catch {
    // Not JSON: a proxy answered. The status is all there is to say.
  }
  if (answer.status === 401 && !path.startsWith("session"))
    sessionEnd.dispatchEvent(new Event("end"));
  const wait = Number(answer.headers.get("Retry-After"));
  return new ApiError(answer.status, problem, Number.isFinite(wait) && wait > 0 ? wait : null);
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await (await send("GET", path, undefined, signal)).json()) as T;
}

export async function change<T = unknown>(
  method: Exclude<Method, "GET">,
  path: string,
  body?: unknown,
): Promise<T> {
  const answer = await send(method, path, body);
  const text = await answer.text();
  return (text === "" ? undefined : JSON.parse(text)) as T;
}

/** name=value pairs of a query string, without those that have no value. */
export function query(
  values: Record<string, string | number | boolean | null | undefined>,
): string {
  const out = new URLSearchParams();
  for (const [name, value] of Object.entries(values))
    if (value !== null && value !== undefined && value !== "") out.set(name, String(value));
  const text = out.toString();
  return text === "" ? "" : `?${text}`;
}
