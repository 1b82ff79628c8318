import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";

const EXAMPLE = join(import.meta.dirname, "../example");
const { claimsOf, textOf } = await import(join(EXAMPLE, "content.js"));

test("what is no token has no claims", () => {
  for (const token of ["", "abc", "a.b.c", "a.!.c"]) assert.equal(claimsOf(token), undefined);
  assert.deepEqual(claimsOf(`a.${btoa('{"sub":"bob"}')}.c`), { sub: "bob" });
});

test("a post is shown by its words, or by its whole body", () => {
  assert.equal(textOf({ text: "Hello" }), "Hello");
  assert.equal(textOf({ title: "Hello" }), "Hello");
  assert.equal(textOf({ text: { a: 1 } }), '{"text":{"a":1}}');
  assert.equal(textOf(null), "null");
});

test("a wrong option of the example is answered by its usage", () => {
  for (const option of ["--help", "--usr"]) {
    const command = [join(EXAMPLE, "serve.js"), option];
    const { status, stderr } = spawnSync(process.execPath, command, { encoding: "utf8" });
    assert.equal(status, 2);
    assert.match(stderr, /^Usage: npm run example -- --user NAME.*\n$/);
  }
});
