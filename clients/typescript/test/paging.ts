/** Timelines to page through, and what iterations over them hand over. */

import type { TestContext } from "node:test";

import type { Fanfold, Page, Pages } from "fanfold-client";

import { clientOf, serve, type Server } from "./http.js";
import { Service } from "./service.js";

/** A service with so many entries, its server and a client. */
export async function started(
  t: TestContext,
  count: number,
): Promise<{
  service: Service;
  server: Server;
  client: Fanfold;
  hold: (until: Promise<void>) => void;
}> {
  const service = new Service();
  for (let second = 0; second < count; second++) service.publish(second);
  let held = Promise.resolve();
  const server = await serve(t, async (asked) => {
    const answer = service.answer(asked);
    const until = held;
    if (asked.path === "/v1/timeline") held = Promise.resolve();
    if (asked.path === "/v1/timeline") await until;
    return answer;
  });
  return { service, server, client: clientOf(server), hold: (until) => (held = until) };
}

/** What iterations hand over: the ids, each time. */
export async function ids(...iterations: AsyncIterable<Page>[]): Promise<string[]> {
  const all: string[] = [];
  const read = async (pages: AsyncIterable<Page>) => {
    for await (const page of pages) all.push(...page.entries.map((each) => each.ref_id));
  };
  await Promise.all(iterations.map(read));
  return all;
}

export const held = (pages: Pages) => pages.entries.map((each) => each.ref_id);
export const newestFirst = (service: Service) =>
  [...service.entries]
    .sort((a, b) => (a.published_at < b.published_at ? 1 : -1))
    .map((each) => each.ref_id);
