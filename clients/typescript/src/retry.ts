import { Problem } from "./problem.js";

/**
 * An access token, or how to get one. The function is asked before every request, so let it keep
 * its token. When one was refused, it is asked once more and told which, by all requests at once.
 */
export type Token = string | ((rejected?: string) => string | Promise<string>);

export interface Patience {
  /** How long one call may take with all its attempts. */
  deadlineMs?: number;
  /** How long one attempt may take: API Gateway gives up after 30 seconds. */
  attemptMs?: number;
  /** The first pause between attempts, of which each is twice as long as the last. */
  backoffMs?: number;
}

const MAX_BACKOFF_MS = 10_000;
// The most that the service takes.
const MAX_REQUEST_AGE_MS = 3_600_000;
const REDIRECTED =
  "The address leads elsewhere, and nothing was sent there: give the stack's output ApiUrl.";
const NO_TOKEN = "There is no access token that can be sent: sign in again.";

/** A `fetch` that sends the token, repeats what is safe to repeat, and throws a `Problem` else. */
export function patientFetch(token: Token, patience: Patience, send: typeof fetch) {
  const { deadlineMs = 60_000, attemptMs = 30_000, backoffMs = 500 } = patience;
  const renewal = new Renewal(token);

  return async (request: Request): Promise<Response> => {
    const { signal } = request;
    const content = await request.text();
    const ends = performance.now() + deadlineMs;
    const ageMs = aging();
    // Without its key, a publish whose answer was lost would be published twice.
    const isSafe = request.method !== "POST" || request.headers.has("Idempotency-Key");
    let rejected: string | undefined;
    for (let attempt = 0; ; attempt++) {
      const left = Math.max(0, ends - performance.now());
      const sent = await within(left, signal, () => renewal.token(rejected));
      if (!isToken(sent)) throw new Problem("no-user", NO_TOKEN, 401);
      const headers = new Headers(request.headers);
      headers.set("Authorization", `Bearer ${sent}`);
      // A repeated edit gives way to those that were sent after its first attempt.
      if (headers.has("Request-Age")) headers.set("Request-Age", String(ageMs()));
      try {
        const lasts = Math.min(attemptMs, left);
        const attempt = (until: AbortSignal) => answer(request, headers, content, until, send);
        return await within(lasts, signal, attempt);
      } catch (error) {
        signal.throwIfAborted();
        const problem = error instanceof Problem ? error : unreachable(error);
        if (problem.status === 401 && typeof token !== "string" && rejected === undefined) {
          rejected = sent;
          continue;
        }
        if (problem.status === 401) renewal.forget(sent);
        const waits = pauseMs(attempt, backoffMs, problem.retryAfterMs);
        const isTime = performance.now() + waits < ends;
        if (!problem.passes || !isSafe || !isTime) throw problem;
        await sleep(waits, signal);
      }
    }
  };
}

/** Asks for a token in place of a rejected one once, however many requests had sent that one. */
class Renewal {
  #rejected: string | undefined;
  #renewed: Promise<string> = Promise.resolve("");
  #answer: string | undefined;

  constructor(private readonly source: Token) {}

  token(rejected: string | undefined): Promise<string> {
    if (rejected === undefined) return this.#ask();
    if (this.#rejected !== rejected) {
      this.#rejected = rejected;
      this.#renewed = this.#ask(rejected).then(
        (renewed) => (this.#answer = renewed),
        (error: unknown) => {
          this.#rejected = undefined;
          throw error;
        },
      );
    }
    return this.#renewed;
  }

  /** A renewed token that is rejected itself is no answer to the next rejection. */
  forget(token: string): void {
    if (token === this.#answer) this.#rejected = undefined;
  }

  async #ask(rejected?: string): Promise<string> {
    try {
      return typeof this.source === "string" ? this.source : await this.source(rejected);
    } catch (cause) {
      if (cause instanceof Problem) throw cause;
      const sentence = cause instanceof Error ? cause.message : String(cause);
      throw new Problem("no-token", sentence, 0, undefined, { cause });
    }
  }
}

/** One attempt. The answer is read to its end: a connection may break in its middle. */
async function answer(
  request: Request,
  headers: Headers,
  content: string,
  signal: AbortSignal,
  send: typeof fetch,
): Promise<Response> {
  const { method, url } = request;
  // A fetch that followed would send body and key to another server, or make a GET of a publish.
  const redirect = "manual";
  const got = await send(url, { method, headers, body: content || null, signal, redirect });
  // A browser hides the status.
  if (got.type === "opaqueredirect" || (got.status >= 300 && got.status < 400)) {
    throw new Problem("redirected", REDIRECTED, got.status);
  }
  const text = await got.text();
  if (!got.ok) throw Problem.of(got.status, got.headers, text);
  if (got.status !== 204 && !holdsContent(text)) {
    throw new Problem(
      "unknown",
      "The answer cannot be read: it is broken, or something else answers at this address.",
    );
  }
  return new Response(text || null, { status: got.status, headers: got.headers });
}

/** Milliseconds since then, by the clock that says more: a machine that sleeps stops one of them. */
function aging(): () => number {
  const [ran, began] = [performance.now(), Date.now()];
  return () => {
    const age = Math.max(performance.now() - ran, Date.now() - began);
    return Math.min(Math.round(age), MAX_REQUEST_AGE_MS);
  };
}

/** Anything else cannot be sent in a header, or would be sent as words like `undefined`. */
function isToken(token: unknown): token is string {
  return typeof token === "string" && /^[!-~]+$/.test(token);
}

/** Every answer of the service is an object of JSON, but for a 204. */
function holdsContent(text: string): boolean {
  try {
    const content: unknown = JSON.parse(text);
    return typeof content === "object" && content !== null;
  } catch {
    return false;
  }
}

function unreachable(cause: unknown): Problem {
  return new Problem("unreachable", "The service did not answer.", 0, undefined, { cause });
}

/** At least what the service asks for, and up to half as much again, lest all return together. */
export function pauseMs(attempt: number, backoffMs: number, retryAfterMs = 0): number {
  const backoff = Math.min(backoffMs * 2 ** attempt, MAX_BACKOFF_MS);
  return Math.max(backoff, retryAfterMs) * (1 + Math.random() / 2);
}

/** Wait; rejects with the signal's reason when it is aborted. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  let timer: ReturnType<typeof setTimeout>;
  const over = new Promise<void>((resolve) => (timer = setTimeout(resolve, ms)));
  return abortable(over, signal).finally(() => clearTimeout(timer));
}

/** Do `work` with a signal that ends with the time or with the caller's; leaves nothing behind. */
async function within<T>(
  ms: number,
  signal: AbortSignal,
  work: (signal: AbortSignal) => T | Promise<T>,
): Promise<T> {
  const control = new AbortController();
  const late = new Problem("unreachable", "The service did not answer in time.");
  const abort = () => control.abort(signal.reason);
  const timer = setTimeout(() => control.abort(late), ms);
  signal.addEventListener("abort", abort, { once: true });
  try {
    signal.throwIfAborted();
    return await abortable(Promise.resolve(work(control.signal)), control.signal);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", abort);
  }
}

/** The same promise, but rejected at once when the signal is aborted. */
export function abortable<T>(promise: Promise<T>, signal?: AbortSignal): Promise<T> {
  if (!signal) return promise;
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    if (signal.aborted) abort();
    signal.addEventListener("abort", abort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  });
}
