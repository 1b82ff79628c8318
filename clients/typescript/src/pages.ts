import { Problem } from "./problem.js";
import { abortable, sleep } from "./retry.js";
import type { components } from "./schema.js";

export type Entry = components["schemas"]["TimelineEntry"];
export type Answer = components["schemas"]["TimelinePage"];
export type Query = { limit?: number; before?: string; after?: string; from?: string; to?: string };
export type Read = (query: Query, signal?: AbortSignal) => Promise<Answer>;

export interface Page {
  /** The entries that this page has added, newest first. */
  entries: Entry[];
  /** True of the first page, also when it is read anew: forget what was shown before. */
  isFirst: boolean;
}

export interface Call {
  signal?: AbortSignal | undefined;
}

export interface Polling extends Call {
  intervalMs?: number;
  /** Called after each round: with the problem if it has failed and goes on, else without one. */
  onRound?: (problem?: Problem) => void;
}

// The cursor upwards remembers so many entries, and finds what comes late among them.
const REMEMBERED = 50;
const MAX_PAUSE_MS = 300_000;

/**
 * The pages of a timeline or a feed, and the entries of all that were read, each once.
 *
 * Requests take turns. An answer changes the state as a whole; one that fails or is aborted does
 * not, and the next call asks for the same page.
 */
export class Pages {
  #known = new Map<string, Entry>();
  #entries: readonly Entry[] = [];
  #next: Query | null = {};
  #previous = "";
  /** The version that the entries show. */
  #shown = -1;
  #reloads = 0;
  #turn: Promise<unknown> = Promise.resolve();
  /** How many requests upwards were sent, and the last of them that has reached the top. */
  #sent = 0;
  #topped = 0;

  constructor(
    private readonly read: Read,
    private readonly range: Query,
    /** Changes with each of the user's own follows, unfollows, mutes and unmutes. */
    private readonly relations: () => number,
  ) {}

  /** What was read and is held, newest first; another array after each change. */
  get entries(): readonly Entry[] {
    return this.#entries;
  }

  /** Whether there is more below what was read. */
  get hasOlder(): boolean {
    return this.#next !== null;
  }

  /** Page by page downwards, from where the last call has stopped. */
  async *older({ signal }: Call = {}): AsyncGenerator<Page, void, undefined> {
    for (;;) {
      const page = await this.#inTurn(signal, () => this.#step("down", signal));
      if (!page) return;
      if (page.isFirst || page.entries.length) yield page;
    }
  }

  /** Page by page upwards, up to the newest: what is new, and what has come late. */
  async *newer({ signal }: Call = {}): AsyncGenerator<Page, void, undefined> {
    const called = this.#sent;
    // A request that was sent after this call, and has reached the top, has seen everything.
    const isDone = () => this.#topped > called;
    while (!isDone()) {
      const page = await this.#inTurn(signal, async () =>
        isDone() ? undefined : this.#step("up", signal),
      );
      if (page && (page.isFirst || page.entries.length)) yield page;
    }
  }

  /** `newer`, again and again, with a pause between; failures that pass make it longer. */
  async *poll({ intervalMs = 10_000, onRound, signal }: Polling = {}): AsyncGenerator<
    Page,
    void,
    undefined
  > {
    for (let failures = 0; ;) {
      try {
        yield* this.newer({ signal });
        failures = 0;
        onRound?.();
      } catch (error) {
        if (!(error instanceof Problem && error.passes)) throw error;
        failures++;
        onRound?.(error);
      }
      const pause = Math.min(intervalMs * 2 ** failures, Math.max(MAX_PAUSE_MS, intervalMs));
      await sleep(pause * (1 + Math.random() / 4), signal);
    }
  }

  /** Begin anew: the next page is the first one, with edits and without what was retracted. */
  reload(): void {
    this.#reloads++;
  }

  /** Hold only the newest entries, 50 or more, so that a long session needs no more memory. */
  trim(count: number): void {
    const last = this.#entries[Math.max(count, REMEMBERED) - 1];
    if (!last || last === this.#entries.at(-1)) return;
    this.#entries = this.#entries.slice(0, Math.max(count, REMEMBERED));
    this.#known = new Map(this.#entries.map((each) => [each.ref_id, each]));
    // `to` is exclusive: entries of the same millisecond are read again, and known.
    this.#next = { to: new Date(Date.parse(last.published_at) + 1).toISOString() };
  }

  get #version(): number {
    return this.relations() + this.#reloads;
  }

  get #isStale(): boolean {
    return this.#shown !== this.#version;
  }

  /** The page in that direction, or the first one if what is held is of other relations. */
  async #step(direction: "up" | "down", signal?: AbortSignal): Promise<Page | undefined> {
    for (;;) {
      const version = this.#version;
      const isFirst = this.#isStale;
      const isUp = isFirst || direction === "up";
      const next = this.#next;
      if (!isUp && !next) return undefined;
      const limit = Math.min(this.range.limit ?? REMEMBERED, isFirst ? REMEMBERED : Infinity);
      const place = isFirst ? {} : isUp ? { after: this.#previous } : next;
      const sent = isUp ? ++this.#sent : 0;
      const answer = await this.read({ ...this.range, ...place, limit }, signal);
      signal?.throwIfAborted(); // from here on the page is handed over, lest it be lost
      // An answer from before a follow or a mute may not show it; `trim` goes on elsewhere.
      if (version !== this.#version || (!isUp && next !== this.#next)) continue;
      if (isFirst) this.#known.clear();
      const entries = answer.entries.filter((each) => !this.#known.has(each.ref_id));
      for (const each of answer.entries) this.#known.set(each.ref_id, each);
      this.#entries = [...this.#known.values()].sort(newestFirst);
      if (isUp) this.#previous = answer.previous;
      if (isFirst || !isUp) this.#next = answer.next === null ? null : { before: answer.next };
      if (isUp && (isFirst || !answer.more)) this.#topped = sent;
      this.#shown = version;
      return { entries, isFirst };
    }
  }

  /** Only waiting for the turn ends at once with the signal: `work` looks at it by itself. */
  #inTurn<T>(signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T> {
    const begins = this.#turn.then(() => signal?.throwIfAborted());
    const turn = begins.then(work);
    this.#turn = turn.catch(() => undefined);
    return abortable(begins, signal).then(() => turn);
  }
}

/** The order of a timeline. Ids are ASCII, so strings compare as the service's bytes do. */
export function newestFirst(one: Place, other: Place): number {
  const a = `${one.published_at}#${one.ref_id}`;
  const b = `${other.published_at}#${other.ref_id}`;
  return a < b ? 1 : a > b ? -1 : 0;
}

export type Place = Pick<Entry, "published_at" | "ref_id">;
