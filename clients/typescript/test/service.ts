/** Timelines as the service answers them, small and in memory, with cursors that can be read. */

import type { Entry } from "fanfold-client";

import type { Answer, Asked } from "./http.js";

const REMEMBERED = 50;

interface Cursor {
  position: string;
  low: string;
  seen: string[];
}

const keyOf = (each: Entry) => `${each.published_at}#${each.ref_id}`;

export class Service {
  readonly entries: Entry[] = [];
  readonly muted = new Set<string>();
  marker: { published_at: string | null; ref_id: string | null } = {
    published_at: null,
    ref_id: null,
  };
  /** How many entries a page may look at before it is partial. */
  looks = 400;

  publish(second: number, publisher_id = "alice", ref_id = `${publisher_id}-${second}`): Entry {
    const published_at = new Date(Date.UTC(2026, 10, 20) + second * 1000).toISOString();
    const entry = { ref_id, publisher_id, published_at, edited_at: null, body: { second } };
    this.entries.push(entry);
    return entry;
  }

  answer({ method, path, query, body }: Asked): Answer {
    const [, , kind, id = ""] = path.split("/");
    if (path === "/v1/timeline/marker" && method === "PUT")
      this.marker = body as typeof this.marker;
    if (path === "/v1/timeline/marker") return { json: this.marker };
    if (path === "/v1/timeline/unread")
      return { json: { unread: this.entries.length, more: false } };
    if (kind === "muted") {
      if (method === "PUT") this.muted.add(id);
      else this.muted.delete(id);
      return { status: 204 };
    }
    if (kind === "publishers")
      return { json: this.page(query, (each) => each.publisher_id === id) };
    return { json: this.page(query, (each) => !this.muted.has(each.publisher_id)) };
  }

  private page(query: Record<string, string>, shows: (entry: Entry) => boolean): unknown {
    const { limit = "50", before, after, to = "9" } = query;
    const within = this.entries
      .filter((each) => each.published_at < to)
      .sort((a, b) => (keyOf(a) < keyOf(b) ? 1 : -1));
    return after === undefined
      ? this.down(within, Number(limit), before ?? "9", shows)
      : this.up(within, Number(limit), JSON.parse(after) as Cursor, shows);
  }

  private down(all: Entry[], limit: number, before: string, shows: (entry: Entry) => boolean) {
    const below = all.filter((each) => keyOf(each) < before);
    const looked: Entry[] = [];
    const shown: Entry[] = [];
    for (const each of below) {
      if (shown.length === limit || looked.length === this.looks) break;
      looked.push(each);
      if (shows(each)) shown.push(each);
    }
    const goesOn = looked.length < below.length;
    const seen = looked.slice(0, REMEMBERED).map(keyOf);
    const low = goesOn || looked.length > REMEMBERED ? (seen.at(-1) ?? "") : "";
    return {
      entries: shown,
      next: goesOn ? keyOf(looked.at(-1) as Entry) : null,
      previous: JSON.stringify({ position: seen[0] ?? "", low, seen }),
      ...(goesOn && shown.length < limit && { partial: true }),
    };
  }

  private up(all: Entry[], limit: number, cursor: Cursor, shows: (entry: Entry) => boolean) {
    const { position, low } = cursor;
    const isNew = (key: string) => key > position || (key >= low && !cursor.seen.includes(key));
    const fresh = all.filter((each) => isNew(keyOf(each))).reverse();
    const looked: Entry[] = [];
    const shown: Entry[] = [];
    for (const each of fresh) {
      if (shown.length === limit || looked.length === this.looks) break;
      looked.push(each);
      if (shows(each)) shown.push(each);
    }
    const keys = [...cursor.seen, ...looked.map(keyOf)].sort().reverse();
    const seen = keys.slice(0, REMEMBERED);
    const last = keys.length > REMEMBERED ? (seen.at(-1) as string) : low;
    const goesOn = looked.length < fresh.length;
    return {
      entries: shown.reverse(),
      next: position,
      previous: JSON.stringify({ position: keys[0] ?? position, low: last, seen }),
      ...(goesOn && { more: true }),
      ...(goesOn && shown.length < limit && { partial: true }),
    };
  }
}
