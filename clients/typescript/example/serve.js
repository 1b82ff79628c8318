// npm run example -- --user bob: the page on this machine, signed in on the local engine.

import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { extname, join } from "node:path";
import { parseArgs } from "node:util";

const LIFETIME_HOURS = 8; // as the engine's
const CLIENT = join(import.meta.dirname, "..");
const SERVED = /^\/(example|dist|node_modules\/openapi-fetch\/dist)\/[\w.-]+$/;
const TYPES = {
  ".html": "text/html; charset=utf-8",
  ".css": "text/css",
  ".js": "text/javascript",
  ".json": "application/json",
  ".mjs": "text/javascript",
};

/** Whom the page signs in as. */
function chosenUser() {
  try {
    return parseArgs({ options: { user: { type: "string", default: "bob" } } }).values.user;
  } catch {
    console.error("Usage: npm run example -- --user NAME, of whom the page signs in; else bob.");
    process.exit(2);
  }
}

const user = chosenUser();
const installed = join(CLIENT, "../../.venv/bin/fanfold");

/** What a command of `fanfold` prints; its own words go to the terminal. */
function fanfold(...words) {
  const command = existsSync(installed) ? installed : "fanfold";
  const stdio = ["ignore", "pipe", "inherit"];
  try {
    return execFileSync(command, words, { stdio, encoding: "utf8" }).trim();
  } catch {
    console.error("No local engine answers: start one with `fanfold local up`.");
    process.exit(1);
  }
}

const api = JSON.parse(fanfold("local", "status", "--json")).outputs.ApiUrl;
const token = fanfold("token", "--user", user);

// Whatever a link or a post says, the page sends nothing to anybody else.
const POLICY = `connect-src 'self' ${new URL(api).origin}; base-uri 'none'; frame-ancestors 'none'`;

const server = createServer(async (request, response) => {
  const { pathname } = new URL(request.url ?? "/", "http://localhost");
  const path = pathname.endsWith("/") ? `${pathname}index.html` : pathname;
  try {
    const isApi = path === "/example/api.json";
    if (!isApi && !SERVED.test(path)) throw new Error("not served");
    const content = isApi ? JSON.stringify({ url: api }) : await readFile(join(CLIENT, path));
    const type = TYPES[extname(path)] ?? "text/plain";
    response.writeHead(200, { "Content-Type": type, "Content-Security-Policy": POLICY });
    response.end(content);
  } catch {
    response.writeHead(404).end("There is nothing here.");
  }
});
server.listen(0, "127.0.0.1", () => {
  const { port } = server.address();
  const fragment = new URLSearchParams({ token });
  console.log(`Open this within an hour, and keep it to yourself: it signs in as ${user}.\n`);
  console.log(`http://localhost:${port}/example/#${fragment}\n`);
  console.log(`It ends with Ctrl-C, or after ${LIFETIME_HOURS} hours.`);
});
setTimeout(() => process.exit(), LIFETIME_HOURS * 3_600_000);
