import assert from "node:assert/strict";
import { test } from "node:test";

import { Fanfold, type Kind, Problem } from "fanfold-client";

import { pauseMs } from "../dist/retry.js";
import { type Answer, clientOf, problem, serve } from "./http.js";

const ACCEPTED = {
  ref_id: "r",
  published_at: "2026-11-20T18:00:00.123Z",
  accepted_at: "2026-11-20T18:00:00.456Z",
};
const UNREAD: Answer = { json: { unread: 3, more: false } };
const BUSY: Answer = { ...(problem(503, "try-later") as object), headers: { "Retry-After": "0" } };

/** Answers one after the other, and the last one from then on. */
const inTurn =
  (...answers: Answer[]) =>
  (_: unknown, index: number) =>
    answers[Math.min(index, answers.length - 1)] as Answer;

const is = (kind: string, status: number) => (error: unknown) => {
  assert.ok(error instanceof Problem, String(error));
  assert.deepEqual([error.kind, error.status], [kind, status]);
  return true;
};

test("each problem that shares a status with another is a kind of its own", () => {
  const kinds: Kind[] = ["too-many-mutes", "mute-overtaken"];
  // @ts-expect-error: the name of their common answer is none of a problem
  const joined: Kind = "too-many-mutes-or-mute-overtaken";
  assert.ok(!kinds.includes(joined));
});

test("a publish whose answer was lost is sent again with the same key", async (t) => {
  const server = await serve(t, inTurn("lost", "cut", { status: 202, json: ACCEPTED }));
  const accepted = await clientOf(server).publish({ title: "Hello" });
  assert.equal(accepted.ref_id, "r");
  const keys = server.asked.map((each) => each.headers["idempotency-key"]);
  assert.equal(keys.length, 3);
  assert.equal(new Set(keys).size, 1);
  assert.match(keys[0] as string, /^[0-9a-f]{32}$/);
  assert.deepEqual(server.asked[2]?.body, { body: { title: "Hello" } });
});

test("two publishes have two keys, and a key of one's own is sent", async (t) => {
  const server = await serve(t, () => ({ status: 202, json: ACCEPTED }));
  const client = clientOf(server);
  await client.publish({});
  await client.publish({});
  await client.publish(null, { key: "draft-7", publishedAt: "2026-11-20T18:00:00Z" });
  const keys = server.asked.map((each) => each.headers["idempotency-key"]);
  assert.notEqual(keys[0], keys[1]);
  assert.equal(keys[2], "draft-7");
  assert.deepEqual(server.asked[2]?.body, { body: null, published_at: "2026-11-20T18:00:00Z" });
});

test("a repeated edit or choice tells how long ago it was asked for", async (t) => {
  let now = Date.now();
  t.mock.method(Date, "now", () => now);
  const edited = { json: { ref_id: "r", published_at: "", edited_at: "", body: {} } };
  const server = await serve(t, (_, index) => {
    now += index ? 4_000_000 : 90_000; // while it is under way, and the machine asleep
    return index < 2 ? "lost" : edited;
  });
  await clientOf(server).edit("r", {});
  const [first, second, third] = server.asked.map((each) => Number(each.headers["request-age"]));
  assert.ok(first !== undefined && first < 60_000);
  assert.ok(second !== undefined && second >= 90_000);
  assert.equal(third, 3_600_000);
  await clientOf(server)
    .unfollow("alice")
    .catch(() => {});
  assert.equal(server.asked[3]?.headers["request-age"], undefined);
  await clientOf(server)
    .setPrivate(false)
    .catch(() => {});
  assert.ok(server.asked[4]?.headers["request-age"]);
});

test("a publish without a key is sent once", async (t) => {
  const server = await serve(t, () => "lost");
  const { api } = clientOf(server);
  await assert.rejects(api.POST("/v1/posts", { body: { body: {} } }), is("unreachable", 0));
  assert.equal(server.asked.length, 1);
});

for (const status of [429, 500, 502, 503, 504]) {
  test(`a ${status} is asked again, whoever has answered it`, async (t) => {
    const gateway: Answer = {
      status,
      text: "<html>Bad Gateway</html>",
      headers: { "Content-Type": "text/html" },
    };
    const message: Answer = { status, json: { message: "Service Unavailable" } };
    const server = await serve(t, inTurn(gateway, message, problem(status, "try-later"), UNREAD));
    assert.equal((await clientOf(server).unread()).unread, 3);
    assert.equal(server.asked.length, 4);
  });
}

test("what cannot succeed is a problem with its name and its sentence", async (t) => {
  const server = await serve(t, () => problem(409, "too-many-mutes", "Unmute one first."));
  await assert.rejects(clientOf(server).mute("alice"), (error) => {
    assert.ok(error instanceof Problem);
    assert.equal(error.message, "Unmute one first.");
    assert.equal(error.passes, false);
    return is("too-many-mutes", 409)(error);
  });
  assert.equal(server.asked.length, 1);
});

for (const status of [301, 302, 303, 307, 308]) {
  test(`a ${status} is a problem, and nothing is sent where it points`, async (t) => {
    const other = await serve(t, () => ({ status: 202, json: ACCEPTED }));
    const server = await serve(t, () => ({ status, headers: { Location: other.url } }));
    await assert.rejects(clientOf(server).publish({}), (error) => {
      assert.ok(error instanceof Problem && error.kind === "redirected" && !error.passes);
      return true;
    });
    assert.deepEqual([server.asked.length, other.asked.length], [1, 0]);
  });
}

test("a redirect that a browser hides is the same problem", async () => {
  const fetch = async () => ({ type: "opaqueredirect", status: 0, ok: false }) as Response;
  const client = new Fanfold({ url: "http://localhost:1", token: "of-bob", fetch });
  await assert.rejects(client.unread(), is("redirected", 0));
});

test("words of a proxy that are no JSON are told by their status", async (t) => {
  const server = await serve(t, () => ({ status: 403, text: "<h1>Forbidden</h1>" }));
  await assert.rejects(clientOf(server).unread(), is("unknown", 403));
  assert.equal(server.asked.length, 1);
});

test("a page of HTML with status 200 is no answer of the service", async (t) => {
  const sign: Answer = {
    text: "<h1>Sign in to this network</h1>",
    headers: { "Content-Type": "text/html" },
  };
  const server = await serve(t, inTurn(sign, UNREAD));
  assert.equal((await clientOf(server).unread()).unread, 3);
});

for (const text of ['{"unread":', "null", "3", ""]) {
  test(`an answer that is broken or empty is asked again, and then a problem: ${text}`, async (t) => {
    const broken: Answer = { text, headers: { "Content-Type": "application/json" } };
    const server = await serve(t, inTurn(broken, UNREAD));
    assert.equal((await clientOf(server).unread()).unread, 3);
    const always = await serve(t, () => broken);
    const client = clientOf(always, { deadlineMs: 9_000, backoffMs: 10_000 });
    await assert.rejects(client.unread(), is("unknown", 0));
  });
}

test("an answer without the content that is due is a problem", async (t) => {
  const nothing = await serve(t, () => ({ status: 204 }));
  await assert.rejects(clientOf(nothing).unread(), is("unknown", 0));
  const server = await serve(t, () => ({ json: {} }));
  const client = clientOf(server);
  await assert.rejects(client.publish({}), is("unknown", 0));
  const lists = [client.following(), client.muted(), client.followers("alice")];
  const asked = [client.sentRequests(), client.requests(), client.blocked()];
  const pages = [client.timeline().older(), client.feed("alice").newer()];
  for (const each of [...lists, ...asked, ...pages])
    await assert.rejects(each.next(), is("unknown", 0));
});

for (const key of ["", "two\nlines", "zwölf", "x".repeat(257)]) {
  test(`a key that cannot be sent is a problem: ${key.slice(0, 9)}`, async (t) => {
    const server = await serve(t, () => ({ status: 202, json: ACCEPTED }));
    await assert.rejects(clientOf(server).publish({}, { key }), is("bad-input", 400));
    assert.equal(server.asked.length, 0);
  });
}

for (const url of [
  "",
  "api.example.com",
  "https://",
  "ftp://api.example.com",
  "http://api.example.com",
  "http://127.0.0.1.example.com",
]) {
  test(`what is no address is a problem: '${url}'`, () => {
    assert.throws(() => new Fanfold({ url, token: "of-bob" }), is("bad-input", 400));
  });
}

test("a platform without URL.canParse will do", (t) => {
  t.mock.method(URL, "canParse", () => assert.fail("it is too new"));
  new Fanfold({ url: "https://api.example.com", token: "of-bob" });
});

test("a failed publish tells the key to repeat it with, and API Gateway's id", async (t) => {
  const headers = { "apigw-requestid": "JKJaXmPLvHcESHA=" };
  const gone = { ...(problem(422, "key-reused") as object), headers };
  const server = await serve(t, inTurn("lost", gone));
  await assert.rejects(clientOf(server).publish({}), (error) => {
    assert.ok(error instanceof Problem);
    assert.equal(error.key, server.asked[1]?.headers["idempotency-key"]);
    assert.equal(error.requestId, "JKJaXmPLvHcESHA=");
    return is("key-reused", 422)(error);
  });
});

test("a pause is never shorter than the service asks for, and grows", () => {
  for (let attempt = 0; attempt < 20; attempt++) {
    assert.ok(pauseMs(attempt, 500, 7_000) >= 7_000);
    assert.ok(pauseMs(attempt, 500) >= Math.min(500 * 2 ** attempt, 10_000));
    assert.ok(pauseMs(attempt, 500) <= 15_000);
  }
});

test("the service's Retry-After of no seconds is asked again at once", async (t) => {
  const server = await serve(t, inTurn(BUSY, BUSY, UNREAD));
  await clientOf(server).unread();
  assert.equal(server.asked.length, 3);
});

for (const later of ["3600", new Date(Date.now() + 3_600_000).toUTCString()]) {
  test(`who would wait beyond the deadline is told at once: Retry-After ${later}`, async (t) => {
    const busy = {
      ...(problem(429, "too-many-requests") as object),
      headers: { "Retry-After": later },
    };
    const server = await serve(t, () => busy);
    await assert.rejects(clientOf(server).unread(), (error) => {
      assert.ok(error instanceof Problem && (error.retryAfterMs ?? 0) > 3_000_000);
      return is("too-many-requests", 429)(error);
    });
    assert.equal(server.asked.length, 1);
  });
}

test("attempts end with the time, and with a problem that may pass", async (t) => {
  const server = await serve(t, () => problem(503, "try-later"));
  const client = clientOf(server, { deadlineMs: 200, backoffMs: 20 });
  // On a busy machine the time may be over in the middle of an attempt: then nobody has answered.
  await assert.rejects(client.unread(), (error) => error instanceof Problem && error.passes);
});

test("an attempt that is never answered is given up, and made again", async (t) => {
  const never = new Promise<Answer>(() => {});
  const server = await serve(t, (_, index) => (index ? UNREAD : never));
  assert.equal((await clientOf(server, { attemptMs: 200 }).unread()).unread, 3);
  const silent = await serve(t, () => never);
  await assert.rejects(clientOf(silent, { deadlineMs: 100 }).unread(), is("unreachable", 0));
});

test("a token's function is asked before each call, and once more after a 401", async (t) => {
  const server = await serve(t, (asked) =>
    asked.headers.authorization === "Bearer old"
      ? { status: 401, json: { message: "Unauthorized" } }
      : UNREAD,
  );
  const rejected: (string | undefined)[] = [];
  const tokens = ["old", "new", "newer"];
  const token = async (refused?: string) => {
    rejected.push(refused);
    return tokens.shift() as string;
  };
  const client = clientOf(server, { token });
  await client.unread();
  await client.unread();
  assert.deepEqual(rejected, [undefined, "old", undefined]);
  assert.equal(server.asked[2]?.headers.authorization, "Bearer newer");
});

test("a second 401 is a problem, and so is the first one of a token that stays", async (t) => {
  const server = await serve(t, () => ({ status: 401, json: { message: "Unauthorized" } }));
  await assert.rejects(clientOf(server, { token: () => "refused" }).unread(), is("unknown", 401));
  assert.equal(server.asked.length, 2);
  await assert.rejects(clientOf(server).unread(), is("unknown", 401));
  assert.equal(server.asked.length, 3);
});

test("requests whose token was refused together share the new one", async (t) => {
  let refuse = () => {};
  const all = new Promise<void>((resolve) => (refuse = resolve));
  let refused = 0;
  const server = await serve(t, async ({ headers }) => {
    if (headers.authorization === "Bearer new") return UNREAD;
    if (++refused === 8) refuse();
    await all;
    return { status: 401, json: { message: "Unauthorized" } };
  });
  const rejected: string[] = [];
  const token = async (old?: string) => {
    if (old === undefined) return "old";
    rejected.push(old);
    return "new";
  };
  const client = clientOf(server, { token });
  await Promise.all(Array.from({ length: 8 }, () => client.unread()));
  assert.deepEqual(rejected, ["old"]);
  await client.unread(); // one that was sent with the old one, and is refused later
  assert.deepEqual(rejected, ["old"]);
});

test("a renewed token that is refused, or that failed, is asked for again", async (t) => {
  const server = await serve(t, ({ headers }) =>
    headers.authorization === "Bearer third"
      ? UNREAD
      : { status: 401, json: { message: "Unauthorized" } },
  );
  const renewals = ["second", undefined, "third"];
  const token = async (old?: string) => {
    const given = old === undefined ? "first" : renewals.shift();
    if (given === undefined) throw new Error("offline");
    return given;
  };
  const client = clientOf(server, { token });
  await assert.rejects(client.unread(), is("unknown", 401));
  await assert.rejects(client.unread(), is("no-token", 0));
  assert.equal((await client.unread()).unread, 3);
});

for (const token of [undefined, null, "", "two\nlines", "zwölf", 7]) {
  test(`what is no token is not sent: ${JSON.stringify(token)}`, async (t) => {
    const server = await serve(t, () => ({ status: 401, json: { message: "Unauthorized" } }));
    const refused = clientOf(server, { token: () => token as string, deadlineMs: 500 });
    await assert.rejects(refused.unread(), is("no-user", 401));
    assert.equal(server.asked.length, 0);
  });
}

test("who cannot sign in is told the reason of the app's own function", async (t) => {
  const server = await serve(t, () => UNREAD);
  const cause = new Error("signed out");
  await assert.rejects(
    clientOf(server, { token: () => Promise.reject(cause) }).unread(),
    (error) => {
      assert.ok(error instanceof Problem && error.cause === cause && error.passes);
      assert.equal(error.message, "signed out");
      return is("no-token", 0)(error);
    },
  );
  const ended = new Problem("no-user", "Sign in again.", 401);
  await assert.rejects(clientOf(server, { token: () => Promise.reject(ended) }).unread(), ended);
  assert.equal(server.asked.length, 0);
});

test("an abort ends a call that waits for its answer, for a pause or for a token", async (t) => {
  const reason = new Error("the reader has left");
  const never = new Promise<never>(() => {});
  const control = new AbortController();
  const silent = await serve(t, () => {
    control.abort(reason);
    return never;
  });
  await assert.rejects(clientOf(silent).unread({ signal: control.signal }), reason);
  const other = new AbortController();
  const busy = await serve(t, () => {
    setTimeout(() => other.abort(reason), 50);
    return problem(503, "try-later");
  });
  const slow = clientOf(busy, { backoffMs: 10_000 });
  await assert.rejects(slow.unread({ signal: other.signal }), reason);
  assert.equal(busy.asked.length, 1);
  const signal = AbortSignal.abort(reason);
  await assert.rejects(clientOf(busy, { token: () => never }).unread({ signal }), reason);
  assert.equal(busy.asked.length, 1);
});

test("ids are escaped, and those that an address cannot hold are refused", async (t) => {
  const server = await serve(t, () => ({ status: 204 }));
  const client = clientOf(server);
  await client.unfollow("shop:a|b@c+d=e");
  assert.equal(server.asked[0]?.path, "/v1/following/shop%3Aa%7Cb%40c%2Bd%3De");
  for (const id of ["", ".", "..", "a\ud800"])
    await assert.rejects(client.unfollow(id), is("bad-input", 400));
  await assert.rejects(client.timeline({ from: "\udfff" }).older().next(), is("bad-input", 400));
  assert.equal(server.asked.length, 1);
  await client.unfollow("\u{1f600}"); // a whole pair
  assert.equal(server.asked[1]?.path, "/v1/following/%F0%9F%98%80");
});

test("lists are read page by page, also beyond an empty one", async (t) => {
  const pages = [
    { followers: [{ user_id: "a" }], next: "one" },
    { followers: [], next: "two" },
    { followers: [{ user_id: "b" }], next: null },
  ];
  const server = await serve(t, (_, index) => ({ json: pages[index] }));
  const ids: string[] = [];
  for await (const { user_id } of clientOf(server).followers("alice")) ids.push(user_id);
  assert.deepEqual(ids, ["a", "b"]);
  assert.deepEqual(
    server.asked.map((each) => each.query.cursor),
    [undefined, "one", "two"],
  );
});
