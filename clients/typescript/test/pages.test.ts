import assert from "node:assert/strict";
import { test } from "node:test";

import type { Page } from "fanfold-client";

import { Pages } from "../dist/pages.js";
import { clientOf, serve } from "./http.js";
import { held, ids, newestFirst, started } from "./paging.js";
import { Service } from "./service.js";

test("pages down to the end and up to the newest have each entry once", async (t) => {
  const { service, client } = await started(t, 130);
  const timeline = client.timeline({ limit: 20 });
  const down = await ids(timeline.older());
  assert.deepEqual(down, newestFirst(service));
  for (let second = 200; second < 275; second++) service.publish(second);
  const up = await ids(timeline.newer());
  assert.equal(up.length, 75);
  assert.equal(new Set([...down, ...up]).size, 205);
  assert.deepEqual(held(timeline), newestFirst(service));
  assert.equal(timeline.hasOlder, false);
  assert.deepEqual(await ids(timeline.older(), timeline.newer()), []);
});

test("newer on a timeline that was not read yet reads its first page alone", async (t) => {
  const { server, client } = await started(t, 130);
  const timeline = client.timeline();
  const pages: Page[] = [];
  for await (const page of timeline.newer()) pages.push(page);
  assert.equal(pages.length, 1);
  assert.equal(pages[0]?.isFirst, true);
  assert.equal(server.asked.length, 1);
});

test("an empty timeline is one page without entries, and then what comes", async (t) => {
  const { service, client } = await started(t, 0);
  const timeline = client.timeline();
  assert.deepEqual(await ids(timeline.older()), []);
  service.publish(1);
  assert.deepEqual(await ids(timeline.newer()), ["alice-1"]);
});

test("late entries take their places", async (t) => {
  const { service, client } = await started(t, 0);
  for (const second of [10, 20, 30]) service.publish(second);
  const timeline = client.timeline();
  await ids(timeline.older());
  service.publish(25);
  service.publish(40);
  assert.deepEqual((await ids(timeline.newer())).sort(), ["alice-25", "alice-40"]);
  assert.deepEqual(held(timeline), newestFirst(service));
});

test("an entry that a page repeats is held once, as it is now", async (t) => {
  const service = new Service();
  const first = service.publish(1);
  const again = { ...first, body: { title: "edited" } };
  const second = service.publish(2);
  const pages = [
    { entries: [first], next: null, previous: "a" },
    { entries: [second, again], next: null, previous: "b" },
  ];
  const server = await serve(t, (_, index) => ({ json: pages[index] }));
  const timeline = clientOf(server).timeline();
  await ids(timeline.older());
  assert.deepEqual(await ids(timeline.newer()), ["alice-2"]);
  assert.deepEqual(timeline.entries, [second, again]);
});

test("pages that are partial or empty do not end a way down or up", async (t) => {
  const { service, client } = await started(t, 30);
  for (let second = 30; second < 60; second++) service.publish(second, "loud");
  service.muted.add("loud");
  service.looks = 7;
  const timeline = client.timeline({ limit: 5 });
  assert.equal((await ids(timeline.older())).length, 30);
  for (let second = 60; second < 90; second++) service.publish(second, "loud");
  service.publish(90);
  assert.deepEqual(await ids(timeline.newer()), ["alice-90"]);
});

test("two ways down at once share the pages", async (t) => {
  const { service, server, client } = await started(t, 130);
  const timeline = client.timeline({ limit: 20 });
  const all = await ids(timeline.older(), timeline.older());
  assert.deepEqual(all.sort(), newestFirst(service).sort());
  assert.equal(server.asked.length, 7);
});

test("many calls of newer at once make one more request than a single one", async (t) => {
  const { service, server, client, hold } = await started(t, 10);
  const timeline = client.timeline();
  await ids(timeline.older());
  service.publish(20);
  let release = () => {};
  hold(new Promise((resolve) => (release = resolve)));
  const first = ids(timeline.newer());
  while (server.asked.length < 2) await new Promise((resolve) => setTimeout(resolve, 5));
  service.publish(30); // after the first one's request: it is the others' to find
  const others = ids(timeline.newer(), timeline.newer(), timeline.newer());
  release();
  assert.deepEqual(await first, ["alice-20"]);
  assert.deepEqual(await others, ["alice-30"]);
  assert.equal(server.asked.length, 3);
});

test("a feed pages in both directions, and no mute begins it anew", async (t) => {
  const { service, client } = await started(t, 30);
  service.publish(40, "carol");
  const feed = client.feed("alice", { limit: 20 });
  assert.equal((await ids(feed.older())).length, 30);
  await client.mute("alice");
  service.publish(50);
  assert.deepEqual(await ids(feed.newer()), ["alice-50"]);
});

test("a request that fails or is aborted changes nothing, and holds up nobody", async (t) => {
  const { service, server, client, hold } = await started(t, 60);
  const timeline = client.timeline({ limit: 20 });
  await timeline.older().next();
  const control = new AbortController();
  let release = () => {};
  hold(new Promise((resolve) => (release = resolve)));
  const aborted = ids(timeline.older({ signal: control.signal }));
  while (server.asked.length < 2) await new Promise((resolve) => setTimeout(resolve, 5));
  const waiting = new AbortController();
  const second = ids(timeline.older({ signal: waiting.signal }));
  waiting.abort(new Error("left"));
  await assert.rejects(second, /left/); // while the first one still has the turn
  control.abort(new Error("gone"));
  await assert.rejects(aborted, /gone/);
  release();
  assert.equal((await ids(timeline.older())).length, 40);
  assert.deepEqual(held(timeline), newestFirst(service));
});

test("a page whose iteration is aborted is handed over, or read again", async () => {
  const entry = new Service().publish(1);
  const answer = { entries: [entry], next: null, previous: "a" };
  for (let late = 0; late < 20; late++) {
    const control = new AbortController();
    const read = async () => {
      const abort = async () => {
        for (let tick = 0; tick < late; tick++) await undefined;
        control.abort(new Error("left"));
      };
      void abort();
      return answer;
    };
    const pages = new Pages(read, {}, () => 0);
    const found: string[] = [];
    try {
      for await (const page of pages.older({ signal: control.signal }))
        found.push(...page.entries.map((each) => each.ref_id));
    } catch (error) {
      assert.match(String(error), /left/);
    }
    found.push(...(await ids(pages.older())));
    assert.deepEqual(found, [entry.ref_id], `aborted after ${late} microtasks`);
  }
});

test("who breaks off a way goes on where it stopped", async (t) => {
  const { service, client } = await started(t, 60);
  const timeline = client.timeline({ limit: 20 });
  for (let page = 0; page < 3; page++) for await (const _ of timeline.older()) break;
  assert.deepEqual(held(timeline), newestFirst(service));
});

test("a trimmed timeline reads what it has dropped again, when asked to", async (t) => {
  const { service, client, server, hold } = await started(t, 300);
  service.publish(200, "alice", "the-same-time");
  const timeline = client.timeline({ limit: 40 });
  await ids(timeline.older());
  timeline.trim(100);
  assert.equal(timeline.entries.length, 100);
  assert.equal(timeline.hasOlder, true);
  service.publish(400);
  assert.deepEqual(await ids(timeline.newer()), ["alice-400"]);
  assert.equal((await ids(timeline.older())).length, 201);
  assert.deepEqual(held(timeline), newestFirst(service));
  timeline.trim(250);
  let release = () => {};
  hold(new Promise((resolve) => (release = resolve)));
  const asked = server.asked.length;
  const reading = ids(timeline.older());
  while (server.asked.length === asked) await new Promise((resolve) => setTimeout(resolve, 5));
  timeline.trim(60); // while a page from below is on its way
  release();
  assert.equal((await reading).length, 242);
  assert.deepEqual(held(timeline), newestFirst(service));
});

test("the first page is no longer than the cursor upwards remembers", async (t) => {
  const { server, client } = await started(t, 300);
  await ids(client.timeline({ limit: 100 }).older());
  assert.deepEqual(
    server.asked.map((each) => each.query.limit),
    ["50", "100", "100", "100"],
  );
});

test("of entries that come in any order, none is missing and none is there twice", async (t) => {
  for (let seed = 1; seed <= 20; seed++) {
    const { service, client } = await started(t, 90);
    let state = seed;
    const random = (below: number) => (state = (state * 48271) % 2147483647) % below;
    const timeline = client.timeline({ limit: 5 + random(40) });
    let second = 100;
    const all: string[] = [];
    for (let step = 0; step < 30; step++) {
      for (let count = random(4); count--;) service.publish((second += 2));
      if (timeline.entries.length > 30 && random(2))
        service.publish(second - 1 - 2 * random(8), "late", `late-${step}`);
      for await (const page of random(3) ? timeline.newer() : timeline.older()) {
        all.push(...page.entries.map((each) => each.ref_id));
        if (!random(3)) break;
      }
    }
    all.push(...(await ids(timeline.older(), timeline.newer())));
    assert.equal(new Set(all).size, all.length, `twice, seed ${seed}`);
    assert.deepEqual(all.sort(), newestFirst(service).sort(), `seed ${seed}`);
  }
});
