import assert from "node:assert/strict";
import { test } from "node:test";

import { Pages, type Query } from "../dist/pages.js";
import { clientOf, eventually, idsOf, names, published, sent } from "./engine.js";

const PUBLISHERS = ["alice", "carol"];

test(`${sent} entries are paged down and up while ${published} are published`, async () => {
  const reader = clientOf("bob");
  const expected = new Set(
    Array.from({ length: sent }, (_, number) => `${names["bob"]}-${number}`),
  );
  let isPublished = false;
  const publishing = Promise.all(
    PUBLISHERS.map(async (name, which) => {
      const publisher = clientOf(name);
      for (let number = which; number < published; number += PUBLISHERS.length) {
        expected.add((await publisher.publish({ number })).ref_id);
      }
    }),
  ).finally(() => (isPublished = true));

  const timeline = reader.timeline({ limit: 20 });
  const down: string[] = [];
  const pageDown = async () => {
    for await (const page of timeline.older()) {
      down.push(...page.entries.map((each) => each.ref_id));
      down.push(...(await idsOf(timeline.newer())));
    }
    const isComplete = async () => {
      down.push(...(await idsOf(timeline.newer())));
      return isPublished && down.length >= expected.size;
    };
    await eventually(isComplete);
  };

  // Upwards from the beginning: the range below the first entry is empty, and its page has a cursor.
  const read = async (query: Query, signal?: AbortSignal) => {
    const range = query.after ? {} : { to: "2026-01-01", from: "2025-12-31" };
    const params = { query: { ...query, ...range } };
    const { data } = await reader.api.GET("/v1/timeline", { params, signal: signal ?? null });
    assert.ok(data);
    return data;
  };
  const fromBelow = new Pages(read, { limit: 20 }, () => 0);
  const up: string[] = [];
  const pageUp = () =>
    eventually(async () => {
      up.push(...(await idsOf(fromBelow.newer())));
      return isPublished && up.length >= expected.size;
    });

  await Promise.all([publishing, pageDown(), pageUp()]);
  // One more look: whatever comes twice would come now.
  down.push(...(await idsOf(timeline.older())), ...(await idsOf(timeline.newer())));
  up.push(...(await idsOf(fromBelow.newer())));
  for (const ids of [down, up]) {
    assert.equal(ids.length, new Set(ids).size, "an entry came twice");
    assert.deepEqual(ids.sort(), [...expected].sort());
  }
  assert.equal(expected.size, sent + published);
  const order = (pages: Pages) => pages.entries.map((each) => each.ref_id);
  assert.deepEqual(order(timeline), order(fromBelow));
});
