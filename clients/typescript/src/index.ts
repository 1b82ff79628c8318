import createClient, {
  type Client,
  createQuerySerializer,
  defaultPathSerializer,
} from "openapi-fetch";

import { type Call, Pages, type Place, type Query } from "./pages.js";
import { Problem } from "./problem.js";
import { type Patience, patientFetch, type Token } from "./retry.js";
import type { components, paths } from "./schema.js";
import { Timeline } from "./timeline.js";

export type { Call, Entry, Page, Pages, Place, Polling } from "./pages.js";
export { type Kind, Problem } from "./problem.js";
export type { Patience, Token } from "./retry.js";
export type { components, paths } from "./schema.js";
export type { Timeline } from "./timeline.js";

type Schemas = components["schemas"];
export type Body = Record<string, unknown>;

export interface Options extends Patience {
  /** The stack's output `ApiUrl`. */
  url: string;
  token: Token;
  fetch?: typeof fetch;
}

export interface Range {
  /** Entries of a page, 1 to 100. */
  limit?: number;
  /** From this time on, and before that one: RFC 3339, or a date in UTC. */
  from?: string;
  to?: string;
  /** False: ids without `body`. */
  hydrate?: boolean;
}

const LOOPBACK = ["localhost", "127.0.0.1", "[::1]"];
// Of a request whose attempts then each say their own age.
const AGED = { header: { "Request-Age": 0 } };
const PAGE = ["entries", "next", "previous"] as const;

/** The service as one user sees it. Each method throws a `Problem` if it fails for good. */
export class Fanfold {
  /** All routes with their types, for what has no method here. */
  readonly api: Client<paths>;
  #relations = 0;

  constructor({ url, token, fetch = globalThis.fetch, ...patience }: Options) {
    checkAddress(url);
    const options = {
      baseUrl: url,
      pathSerializer,
      querySerializer,
      fetch: patientFetch(token, patience, fetch),
    };
    this.api = createClient<paths>(options);
  }

  /** Publish a post. With its key it is the same one however often it is sent. */
  async publish(
    body: Body | null,
    { key = newKey(), publishedAt, ...call }: Call & { key?: string; publishedAt?: string } = {},
  ): Promise<Schemas["Accepted"]> {
    if (!/^[ -~]{1,256}$/.test(key)) {
      const message = "An Idempotency-Key has 1 to 256 characters, all of them printable ASCII.";
      throw new Problem("bad-input", message, 400);
    }
    const params = { header: { "Idempotency-Key": key } };
    const content = { body, ...(publishedAt && { published_at: publishedAt }) };
    try {
      return await data(this.api.POST("/v1/posts", { ...call, params, body: content }), "ref_id");
    } catch (error) {
      if (error instanceof Problem) error.key = key;
      throw error;
    }
  }

  post(ref_id: string, call: Call = {}): Promise<Schemas["Post"]> {
    return data(this.api.GET("/v1/posts/{ref_id}", { ...call, ...path({ ref_id }) }));
  }

  edit(ref_id: string, body: Body, call: Call = {}): Promise<Schemas["Edited"]> {
    const params = { ...path({ ref_id }).params, ...AGED };
    return data(this.api.PUT("/v1/posts/{ref_id}", { ...call, params, body: { body } }));
  }

  async retract(ref_id: string, call: Call = {}): Promise<void> {
    await this.api.DELETE("/v1/posts/{ref_id}", { ...call, ...path({ ref_id }) });
  }

  delivery(ref_id: string, call: Call = {}): Promise<Schemas["Delivery"]> {
    return data(this.api.GET("/v1/posts/{ref_id}/delivery", { ...call, ...path({ ref_id }) }));
  }

  /** A publisher who approves its followers is asked: the answer then has `state`. */
  follow(
    publisher_id: string,
    call: Call = {},
  ): Promise<Schemas["Followed"] | Schemas["Requested"]> {
    const init = { ...call, ...path({ publisher_id }) };
    return this.#relate(data(this.api.PUT("/v1/following/{publisher_id}", init)));
  }

  async unfollow(publisher_id: string, call: Call = {}): Promise<void> {
    const init = { ...call, ...path({ publisher_id }) };
    await this.#relate(this.api.DELETE("/v1/following/{publisher_id}", init));
  }

  async mute(publisher_id: string, call: Call = {}): Promise<void> {
    const init = { ...call, ...path({ publisher_id }) };
    await this.#relate(this.api.PUT("/v1/muted/{publisher_id}", init));
  }

  async unmute(publisher_id: string, call: Call = {}): Promise<void> {
    const init = { ...call, ...path({ publisher_id }) };
    await this.#relate(this.api.DELETE("/v1/muted/{publisher_id}", init));
  }

  /** The user's follow of this publisher, or the request that waits. */
  relation(publisher_id: string, call: Call = {}): Promise<Schemas["Related"]> {
    const init = { ...call, ...path({ publisher_id }) };
    return data(this.api.GET("/v1/following/{publisher_id}", init), "state");
  }

  following(call: Call = {}): AsyncGenerator<Schemas["Followed"], void, undefined> {
    return this.#following("followed", call);
  }

  /** The user's own requests that wait. */
  sentRequests(call: Call = {}): AsyncGenerator<Schemas["Requested"], void, undefined> {
    return this.#following("requested", call);
  }

  me(call: Call = {}): Promise<Schemas["Me"]> {
    return data(this.api.GET("/v1/me", { ...call }), "private");
  }

  /** Approve each new follower from now on, or let everybody follow. */
  setPrivate(isPrivate: boolean, call: Call = {}): Promise<Schemas["Me"]> {
    const init = { ...call, params: AGED, body: { private: isPrivate } };
    return data(this.api.PUT("/v1/me", init), "private");
  }

  /** Who asks to follow the user, newest first. */
  requests(call: Call = {}): AsyncGenerator<Schemas["FollowRequest"], void, undefined> {
    return listed(async (query) => {
      const got = this.api.GET("/v1/requests", { ...call, params: { query } });
      const page = await data(got, "requests", "next");
      return { items: page.requests, next: page.next };
    });
  }

  approve(user_id: string, call: Call = {}): Promise<Schemas["Approved"]> {
    return data(this.api.PUT("/v1/followers/{user_id}", { ...call, ...path({ user_id }) }));
  }

  /** Deny a request, or end the user's follow. */
  async remove(user_id: string, call: Call = {}): Promise<void> {
    await this.api.DELETE("/v1/followers/{user_id}", { ...call, ...path({ user_id }) });
  }

  async block(user_id: string, call: Call = {}): Promise<void> {
    const init = { ...call, ...path({ user_id }) };
    await this.#relate(this.api.PUT("/v1/blocked/{user_id}", init));
  }

  async unblock(user_id: string, call: Call = {}): Promise<void> {
    await this.api.DELETE("/v1/blocked/{user_id}", { ...call, ...path({ user_id }) });
  }

  blocked(call: Call = {}): AsyncGenerator<Schemas["Blocked"], void, undefined> {
    return listed(async (query) => {
      const got = this.api.GET("/v1/blocked", { ...call, params: { query } });
      const page = await data(got, "blocked", "next");
      return { items: page.blocked, next: page.next };
    });
  }

  muted(call: Call = {}): AsyncGenerator<Schemas["Muted"], void, undefined> {
    return listed(async (query) => {
      const page = await data(
        this.api.GET("/v1/muted", { ...call, params: { query } }),
        "muted",
        "next",
      );
      return { items: page.muted, next: page.next };
    });
  }

  followers(
    publisher_id: string,
    call: Call = {},
  ): AsyncGenerator<Schemas["Follower"], void, undefined> {
    return listed(async (query) => {
      const init = { ...call, params: { query, ...path({ publisher_id }).params } };
      const got = this.api.GET("/v1/publishers/{publisher_id}/followers", init);
      const page = await data(got, "followers", "next");
      return { items: page.followers, next: page.next };
    });
  }

  countFollowers(publisher_id: string, call: Call = {}): Promise<Schemas["FollowersCount"]> {
    const init = { ...call, ...path({ publisher_id }) };
    return data(this.api.GET("/v1/publishers/{publisher_id}/followers/count", init));
  }

  marker(call: Call = {}): Promise<Schemas["Marker"]> {
    return data(this.api.GET("/v1/timeline/marker", { ...call }));
  }

  moveMarker({ published_at, ref_id }: Place, call: Call = {}): Promise<Schemas["MovedMarker"]> {
    return data(this.api.PUT("/v1/timeline/marker", { ...call, body: { published_at, ref_id } }));
  }

  unread(call: Call = {}): Promise<Schemas["Unread"]> {
    return data(this.api.GET("/v1/timeline/unread", { ...call }));
  }

  /** The user's own timeline, which begins anew after each follow and mute of this client. */
  timeline(range: Range = {}): Timeline {
    const read = (query: Query, signal?: AbortSignal) =>
      data(this.api.GET("/v1/timeline", { signal, params: { query } }), ...PAGE);
    return new Timeline(this, read, range, () => this.#relations);
  }

  /** A publisher's own posts, whether followed or not. */
  feed(publisher_id: string, range: Range = {}): Pages {
    const { params } = path({ publisher_id });
    const read = (query: Query, signal?: AbortSignal) => {
      const init = { signal, params: { ...params, query } };
      return data(this.api.GET("/v1/publishers/{publisher_id}/posts", init), ...PAGE);
    };
    return new Pages(read, range, () => 0);
  }

  #following<State extends "followed" | "requested">(state: State, call: Call) {
    return listed(async (query) => {
      const init = { ...call, params: { query: { ...query, state } } };
      const page = await data(this.api.GET("/v1/following", init), "following", "next");
      const items = page.following as (State extends "requested"
        ? Schemas["Requested"]
        : Schemas["Followed"])[];
      return { items, next: page.next };
    });
  }

  /** Also after a failure: its request may have been carried out. */
  async #relate<T>(request: Promise<T>): Promise<T> {
    try {
      return await request;
    } finally {
      this.#relations++;
    }
  }
}

function path<T>(ids: T): { params: { path: T } } {
  return { params: { path: ids } };
}

/** What an answer holds, with the members that are due; one that failed has thrown before. */
async function data<T extends object>(
  answer: Promise<{ data?: T }>,
  ...due: readonly (keyof T & string)[]
): Promise<T> {
  const { data } = await answer;
  if (data === undefined || !due.every((each) => each in data))
    throw new Problem("unknown", "The answer is without its content.");
  return data;
}

/** On http a token can be read on its way: only the machine itself may be called so. */
function checkAddress(url: string): void {
  try {
    const { protocol, hostname } = new URL(url);
    if (protocol === "https:") return;
    if (protocol === "http:" && LOOPBACK.includes(hostname)) return;
  } catch {
    // No address at all.
  }
  const message = `'${url}' is no address of the service: give the stack's output ApiUrl, https.`;
  throw new Problem("bad-input", message, 400);
}

/** Each item of all pages; more pages are asked for as they are needed. */
async function* listed<T>(
  read: (query: { limit: number; cursor?: string }) => Promise<{ items: T[]; next: string | null }>,
): AsyncGenerator<T, void, undefined> {
  for (let cursor: string | null | undefined; cursor !== null;) {
    const page: { items: T[]; next: string | null } = await read({
      limit: 100,
      ...(cursor && { cursor }),
    });
    yield* page.items;
    cursor = page.next;
  }
}

/** Of an id that an address cannot hold, another route would answer. */
function pathSerializer(pattern: string, ids: Record<string, unknown>): string {
  for (const [name, id] of Object.entries(ids)) {
    if (/^\.{0,2}$/.test(String(id)))
      throw new Problem("bad-input", `'${id}' is no ${name} that an address can hold.`, 400);
  }
  checkText(ids);
  return defaultPathSerializer(pattern, ids);
}

const serialize = createQuerySerializer();

function querySerializer(query: Record<string, unknown>): string {
  checkText(query);
  return serialize(query);
}

/** Half of a surrogate pair is no text that UTF-8 can spell. */
function checkText(values: Record<string, unknown>): void {
  for (const [name, value] of Object.entries(values)) {
    if (/\p{Surrogate}/u.test(String(value)))
      throw new Problem("bad-input", `${name} holds half of a surrogate pair.`, 400);
  }
}

/** `crypto.randomUUID` is only there on pages of https and of localhost. */
function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (each) => each.toString(16).padStart(2, "0")).join("");
}
