import assert from "node:assert/strict";
import { test } from "node:test";

import { type Page, Problem } from "fanfold-client";

import { type Answer, clientOf, problem, serve } from "./http.js";
import { held, ids, newestFirst, started } from "./paging.js";
import { Service } from "./service.js";

test("after one's own mute the first page is read anew, though newer is under way", async (t) => {
  const { service, server, client, hold } = await started(t, 10);
  service.publish(20, "loud");
  const timeline = client.timeline();
  await ids(timeline.older());
  assert.equal(held(timeline)[0], "loud-20");
  service.publish(30, "loud");
  let release = () => {};
  hold(new Promise((resolve) => (release = resolve)));
  const pages: Page[] = [];
  const reading = (async () => {
    for await (const page of timeline.newer()) pages.push(page);
  })();
  while (server.asked.length < 2) await new Promise((resolve) => setTimeout(resolve, 5));
  await client.mute("loud");
  release();
  await reading;
  assert.deepEqual(
    pages.map((each) => each.isFirst),
    [true],
  );
  assert.ok(!held(timeline).some((each) => each.startsWith("loud")));
  await client.unmute("loud");
  assert.equal((await ids(timeline.newer()))[0], "loud-30");
});

test("a follow whose answer was lost is taken for one that counts", async (t) => {
  const service = new Service();
  service.publish(1);
  const server = await serve(t, (asked): Answer =>
    asked.path.startsWith("/v1/following") ? problem(400, "bad-input") : service.answer(asked),
  );
  const client = clientOf(server);
  const timeline = client.timeline();
  await ids(timeline.older());
  await assert.rejects(client.follow("carol"));
  assert.deepEqual(await ids(timeline.older()), ["alice-1"]); // the first page again
});

test("a way down that goes on after a mute begins anew", async (t) => {
  const { service, client } = await started(t, 100);
  const timeline = client.timeline({ limit: 20 });
  const way = timeline.older();
  await way.next();
  await way.next();
  await client.mute("nobody");
  const { value } = await way.next();
  assert.equal(value?.isFirst, true);
  assert.equal(timeline.entries.length, 20);
  await ids(way);
  assert.deepEqual(held(timeline), newestFirst(service));
});

test("a poll goes on through failures that pass, and ends with one that does not", async (t) => {
  const { service } = await started(t, 1);
  const failures: Answer[] = [problem(503, "try-later"), "lost", problem(403, "feed-closed")];
  const server = await serve(t, (asked, index) =>
    index === 1
      ? (failures[0] as Answer)
      : index === 2
        ? "lost"
        : index === 5
          ? (failures[2] as Answer)
          : service.answer(asked),
  );
  const timeline = clientOf(server, { deadlineMs: 9_000, backoffMs: 10_000 }).timeline();
  const seen: string[] = [];
  const rounds: (string | undefined)[] = [];
  const onRound = (problem?: Problem) => void rounds.push(problem?.kind);
  const polling = (async () => {
    for await (const page of timeline.poll({ intervalMs: 1, onRound })) {
      seen.push(...page.entries.map((each) => each.ref_id));
      service.publish(10 + seen.length);
    }
  })();
  await assert.rejects(polling, { kind: "feed-closed" });
  assert.deepEqual(seen, ["alice-0", "alice-11", "alice-12"]);
  assert.deepEqual(rounds, [undefined, "try-later", "unreachable", undefined, undefined]);
});

test("a poll goes on when the token function fails, and ends when it says so", async (t) => {
  const { server } = await started(t, 1);
  const ended = new Problem("no-user", "Sign in again.", 401);
  const tokens = ["one", new Error("offline"), "two", ended];
  const token = async () => {
    const next = tokens.shift() as string | Error;
    if (typeof next === "string") return next;
    throw next;
  };
  const timeline = clientOf(server, { token }).timeline();
  const rounds: (string | undefined)[] = [];
  const onRound = (problem?: Problem) => void rounds.push(problem?.kind);
  const polling = ids(timeline.poll({ intervalMs: 1, onRound }));
  await assert.rejects(polling, ended);
  assert.deepEqual(rounds, [undefined, "no-token", undefined]);
});

test("a poll ends when it is aborted in its pause, or broken off", async (t) => {
  const { client } = await started(t, 1);
  const control = new AbortController();
  const polling = (async () => {
    for await (const _ of client.timeline().poll({ intervalMs: 1e6, signal: control.signal }))
      setTimeout(() => control.abort(new Error("left")), 20);
  })();
  await assert.rejects(polling, /left/);
  for await (const _ of client.timeline().poll()) break;
});

test("the marker moves up alone, and says what is unread", async (t) => {
  const { service, server, client } = await started(t, 3);
  const timeline = client.timeline();
  assert.equal(await timeline.loadMarker(), undefined);
  await ids(timeline.older());
  assert.ok(timeline.entries.every((each) => timeline.isUnread(each)));
  await timeline.markRead(timeline.entries[1]);
  assert.deepEqual(
    timeline.entries.map((each) => timeline.isUnread(each)),
    [true, false, false],
  );
  await timeline.markRead();
  const { length } = server.asked;
  await timeline.markRead(timeline.entries[2]);
  assert.equal(server.asked.length, length);
  assert.equal(service.marker.ref_id, "alice-2");
  assert.equal((await timeline.unread()).unread, 3);
  service.marker = { published_at: "2026-11-19T00:00:00.000Z", ref_id: "older" };
  assert.equal((await timeline.loadMarker())?.ref_id, "alice-2"); // another container was slower
});
