import assert from "node:assert/strict";
import { test } from "node:test";

import { Problem } from "fanfold-client";

import { clientOf, eventually, idsOf, names } from "./engine.js";

const erin = names["erin"] as string;

test("a post goes its way: published, delivered, read, edited, retracted", async () => {
  const publisher = clientOf("erin");
  const reader = clientOf("frank");
  const timeline = reader.timeline();
  await idsOf(timeline.older());
  const { ref_id } = await publisher.publish({ title: "Hello" }, { key: "hello" });
  assert.equal((await publisher.publish({ title: "Hello" }, { key: "hello" })).ref_id, ref_id);
  await eventually(async () => (await publisher.delivery(ref_id)).state === "complete");

  // A follow brings older posts a moment later: the first page is read anew, then what comes late.
  assert.equal((await reader.follow(erin)).publisher_id, erin);
  const isThere = () => timeline.entries.some((each) => each.ref_id === ref_id);
  await eventually(async () => (await idsOf(timeline.newer()), isThere()));
  assert.deepEqual(timeline.entries[0]?.body, { title: "Hello" });

  await reader.mute(erin);
  await idsOf(timeline.newer());
  assert.equal(isThere(), false);
  const muted = [];
  for await (const each of reader.muted()) muted.push(each.publisher_id);
  assert.deepEqual(muted, [erin]);
  await reader.unmute(erin);
  await idsOf(timeline.newer());
  assert.equal(isThere(), true);

  assert.equal((await timeline.unread()).unread, 1);
  assert.equal(await timeline.loadMarker(), undefined);
  await timeline.markRead();
  assert.equal((await timeline.unread()).unread, 0);
  assert.equal((await clientOf("frank").timeline().loadMarker())?.ref_id, ref_id);

  await publisher.edit(ref_id, { title: "Hello again" });
  assert.deepEqual((await reader.post(ref_id)).body, { title: "Hello again" });
  await eventually(async () => (await idsOf(reader.feed(erin).older())).includes(ref_id));
  const followers = [];
  for await (const each of publisher.followers(erin)) followers.push(each.user_id);
  assert.deepEqual(followers, [names["frank"]]);
  assert.equal((await publisher.countFollowers(erin)).exact, true);

  await publisher.retract(ref_id);
  await assert.rejects(publisher.edit(ref_id, {}), { kind: "post-retracted", status: 410 });
  await reader.unfollow(erin);
  const following = [];
  for await (const each of reader.following()) following.push(each.publisher_id);
  assert.deepEqual(following, []);
});

test("a private publisher approves, removes and blocks its followers", async () => {
  const [publisher, user] = [clientOf("grace"), clientOf("frank")];
  const [grace, frank] = [names["grace"] as string, names["frank"] as string];
  const all = async <T>(list: AsyncIterable<T>) => {
    const found: T[] = [];
    for await (const each of list) found.push(each);
    return found;
  };
  assert.equal((await publisher.setPrivate(true)).private, true);
  assert.equal((await publisher.me()).private, true);
  const asked = await user.follow(grace);
  assert.ok("state" in asked, "a request, not a follow");
  const { requested_at } = asked;
  assert.deepEqual(await all(user.sentRequests()), [asked]);
  assert.deepEqual(await all(publisher.requests()), [{ user_id: frank, requested_at }]);
  assert.deepEqual(await user.relation(grace), asked);

  const { followed_at } = await publisher.approve(frank);
  assert.deepEqual(await all(user.following()), [{ publisher_id: grace, followed_at }]);
  assert.deepEqual(await idsOf(user.feed(grace).older()), []);
  await publisher.remove(frank);
  await assert.rejects(user.relation(grace), { kind: "no-request", status: 404 });
  await assert.rejects(publisher.approve(frank), { kind: "no-request", status: 404 });

  await publisher.block(frank);
  assert.deepEqual(await all(publisher.blocked()), [{ user_id: frank }]);
  await assert.rejects(publisher.follow(frank), { kind: "blocked-by-you", status: 409 });
  assert.ok("state" in (await user.follow(grace)));
  assert.deepEqual(await all(publisher.requests()), []);
  await publisher.unblock(frank);
  assert.equal((await publisher.setPrivate(false)).private, false);
});

test("what is refused is a problem of the contract, and a forged token one of the gateway", async () => {
  const reader = clientOf("frank");
  await assert.rejects(reader.follow("not an id"), (error) => {
    assert.ok(error instanceof Problem);
    assert.equal(error.kind, "bad-input");
    assert.match(error.message, /publisher_id/);
    return true;
  });
  await assert.rejects(reader.countFollowers(erin), { kind: "followers-closed", status: 403 });
  await assert.rejects(reader.delivery("nothing"), { kind: "no-post", status: 404 });
});
