import type { components } from "./schema.js";

/**
 * The problems of the contract; a token function that failed, no answer, one that leads elsewhere,
 * and one that names no problem.
 */
export type Kind =
  Each<keyof components["responses"]> | "no-token" | "unreachable" | "redirected" | "unknown";

/** Problems of one route with the same status share a name, with `or` between theirs. */
type Each<Name extends string> = Name extends `${infer First}-or-${infer Others}`
  ? First | Each<Others>
  : Name;

/** A request that failed; `message` is a sentence for a person. */
export class Problem extends Error {
  override readonly name = "Problem";
  /** Of a publish: with this key, another call is the same publish. */
  key?: string;
  /** API Gateway's name of the request, which its logs and operators know. */
  requestId?: string;

  constructor(
    /** The name of the problem, as on the page of problems; more of them may be added. */
    readonly kind: Kind | (string & {}),
    message: string,
    /** The status of the answer, or 0 where none came or a browser hides it. */
    readonly status = 0,
    /** How long the service asks to wait. */
    readonly retryAfterMs?: number,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }

  /** Whether the same request may succeed later. */
  get passes(): boolean {
    if (this.kind === "redirected") return false;
    return this.status === 0 || this.status === 429 || this.status >= 500;
  }

  /** What an answer other than 2xx says: a problem document, or words of a gateway. */
  static of(status: number, headers: Headers, text: string): Problem {
    const waits = retryAfterMs(headers.get("Retry-After"));
    let said: { type?: unknown; title?: unknown; detail?: unknown; message?: unknown } = {};
    try {
      said = Object(JSON.parse(text));
    } catch {
      // A page of HTML, say.
    }
    const kind = typeof said.type === "string" ? said.type.split("#")[1] : undefined;
    const words = [said.detail, said.title, said.message].find((each) => typeof each === "string");
    const sentence = words ?? `The answer was ${status}.`;
    const problem = new Problem(kind ?? "unknown", sentence, status, waits);
    const requestId = headers.get("apigw-requestid");
    if (requestId) problem.requestId = requestId;
    return problem;
  }
}

/** Milliseconds of a `Retry-After`, which is a number of seconds or a date. */
function retryAfterMs(header: string | null): number | undefined {
  if (!header) return undefined;
  const waits = /^\d+$/.test(header) ? Number(header) * 1000 : Date.parse(header) - Date.now();
  return Number.isNaN(waits) ? undefined : Math.max(0, waits);
}
