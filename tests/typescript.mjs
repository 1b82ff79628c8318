/** Users of the TypeScript client: obeys commands on stdin, a line of JSON each, and answers likewise. */

import { join } from "node:path";
import { createInterface } from "node:readline";

// The share of requests that are carried out, and whose answer gets lost: the client repeats them.
const LOST = 0.05;
// A busy machine takes its time.
const PATIENCE_MS = 240_000;
const PATIENCE = { deadlineMs: PATIENCE_MS, attemptMs: PATIENCE_MS, backoffMs: 20 };

const [folder, url] = process.argv.slice(2);
const { Fanfold } = await import(join(folder, "dist", "index.js"));
const clients = new Map(); // by user
const timelines = new Map(); // by name, with the ids that their pages have shown

async function losing(...request) {
  const answer = await fetch(...request);
  if (Math.random() >= LOST) return answer;
  await answer.arrayBuffer();
  throw new TypeError("The answer was lost.");
}

/** Read one page of a timeline, and tell what the timeline holds then. */
async function step(client, way, name, range) {
  if (!timelines.has(name)) timelines.set(name, [client.timeline(range), new Set()]);
  const [timeline, shown] = timelines.get(name);
  const told = { entries: [], is_first: false, is_end: true };
  for await (const { entries, isFirst } of timeline[way]()) {
    Object.assign(told, { entries, is_first: isFirst, is_end: false });
    if (isFirst) shown.clear();
    for (const each of entries) shown.add(each.ref_id);
    break;
  }
  if (timeline.entries.length !== shown.size || !timeline.entries.every((e) => shown.has(e.ref_id)))
    throw new Error("The timeline holds other entries than its pages have shown.");
  const next = timeline.hasOlder ? name : null;
  return { ...told, held: timeline.entries, next, previous: name };
}

async function obey({ user, token, act, given }) {
  if (!clients.has(user)) clients.set(user, new Fanfold({ url, token, fetch: losing, ...PATIENCE }));
  const client = clients.get(user);
  if (act === "older" || act === "newer") return step(client, act, ...given);
  const told = await client[act](...given);
  if (!told?.[Symbol.asyncIterator]) return told ?? null;
  const all = [];
  for await (const each of told) all.push(each);
  return all;
}

function say(id, told) {
  process.stdout.write(`${JSON.stringify({ id, ...told })}\n`);
}

for await (const line of createInterface(process.stdin)) {
  const { id, ...command } = JSON.parse(line);
  obey(command).then(
    (answer) => say(id, { answer }),
    ({ kind = "", message, status = 0, passes = false }) =>
      say(id, { problem: { kind, message, status, passes } }),
  );
}
