import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test, type TestContext } from "node:test";

import chromium from "@sparticuz/chromium";
import puppeteer, { type Page } from "puppeteer-core";

import { clientOf, eventually, names } from "./engine.js";
import { serve } from "./http.js";

// By default the bundled one, which is for Linux on x64.
const CHROME = process.env["FANFOLD_CHROME"] ?? "";
const ROOT = join(import.meta.dirname, "..");
const [alice, bob] = [names["alice"] as string, names["bob"] as string];
// A busy machine takes its time.
const PATIENCE = { timeout: 120_000 };

const CORS = { "Access-Control-Allow-Origin": "*" };

/** The page as its own command serves it, in a browser of its own. */
async function open(t: TestContext): Promise<Page> {
  const server = spawn("node", ["example/serve.js", "--user", bob], {
    cwd: ROOT,
    stdio: ["ignore", "pipe", "inherit"],
  });
  t.after(() => server.kill());
  let address = "";
  for await (const line of createInterface(server.stdout)) {
    if (line.startsWith("http")) address = line;
    if (address) break;
  }
  assert.match(address, /^http:\/\/localhost:\d+\/example\/#token=/);
  const browser = await puppeteer.launch({
    args: CHROME ? [] : chromium.args,
    executablePath: CHROME || (await chromium.executablePath()),
    headless: "shell",
  });
  t.after(() => browser.close());
  const page = await browser.newPage();
  page.setDefaultTimeout(PATIENCE.timeout);
  await page.setViewport({ width: 800, height: 600 });
  page.on("pageerror", (error) => console.error(error));
  await page.goto(address);
  return page;
}

const texts = (page: Page) =>
  page.$$eval("#entries li p", (all) => all.map((each) => each.textContent));
const has = (page: Page, text: string) =>
  page.waitForFunction(
    (wanted) => document.body.innerText.includes(wanted),
    { ...PATIENCE, polling: 100 },
    text,
  );

/** Look at what is new and scroll down, until the page shows so many posts and no more come. */
async function scrolledTo(page: Page, count: number): Promise<void> {
  await page.waitForFunction(
    (wanted) => {
      const button = document.querySelector<HTMLElement>("#new");
      if (!button?.hidden) button?.click();
      scrollTo(0, document.body.scrollHeight);
      return document.querySelectorAll("#entries li").length === wanted;
    },
    { ...PATIENCE, polling: 200 },
    count,
  );
  await has(page, "That is all.");
}

test("somebody reads, posts, follows and mutes on a page", async (t) => {
  const publisher = clientOf("alice");
  const old = Date.now() - 3_600_000;
  const publish = (number: number) => {
    const publishedAt = new Date(old + 1000 * number).toISOString();
    return publisher.publish({ text: `old ${number}` }, { publishedAt });
  };
  await Promise.all(Array.from({ length: 35 }, (_, number) => publish(number)));
  const page = await open(t);
  assert.equal(new URL(page.url()).hash, ""); // the token is not left in the history
  await has(page, `Signed in as ${bob}`);
  await has(page, "That is all.");

  await page.type("#relations input", alice);
  await page.click("#relations button[value=follow]");
  await has(page, `You have followed ${alice}.`);
  // What the follow brings is on the first page already, or waits as new; some of it is below.
  await scrolledTo(page, 30);
  await page.evaluate(() => scrollTo(0, 0));

  // While one reads, what is new waits.
  const script = "<img src=x onerror=\"document.title='broken'\">";
  await publisher.publish({ text: script });
  await has(page, "1 new post");
  assert.equal((await texts(page))[0], "old 34");
  await page.click("#new");
  await page.waitForFunction(() =>
    document.querySelector("#entries li p")?.textContent?.includes("<img"),
  );
  assert.equal((await texts(page))[0], script);
  assert.equal(await page.title(), "A timeline");
  assert.equal(await page.$eval("#new", (each) => (each as HTMLElement).hidden), true);
  const focused = await page.evaluate(() => document.activeElement?.textContent ?? "");
  assert.ok(focused.includes(script));

  await page.click("#read");
  await has(page, "0 unread");
  assert.equal(await page.$("#entries li.unread"), null);

  await page.type("#post textarea", "from the page");
  await page.click("#post button");
  await has(page, "Posted.");
  const feed = async () => {
    for await (const { entries } of publisher.feed(bob).older())
      if (entries.some((each) => each.body?.["text"] === "from the page")) return true;
    return false;
  };
  await eventually(feed);

  await page.click("#relations button[value=mute]");
  await has(page, `You have muted ${alice}.`);
  await page.waitForFunction(() => document.querySelectorAll("#entries li").length === 0);
  await page.click("#relations button[value=unmute]");
  await has(page, "old 34");
  await scrolledTo(page, 31);

  await page.click("#relations input", { count: 3 });
  await page.type("#relations input", "no such name");
  await page.click("#relations button[value=follow]");
  await has(page, "'publisher_id' is not a valid id");
});

test("somebody approves and blocks followers on a page", async (t) => {
  const [asker, troll] = [clientOf("alice"), clientOf("carol")];
  const carol = names["carol"] as string;
  const page = await open(t);
  await page.click("#audience summary");
  await has(page, "Nobody waits for your approval.");
  await page.click("#private");
  await has(page, " on must ask.");
  assert.ok("state" in (await asker.follow(bob)) && "state" in (await troll.follow(bob)));

  await page.click("#audience summary");
  await page.click("#audience summary");
  await page.locator(`button[aria-label="Approve ${alice}"]`).click();
  await has(page, `${alice} follows you.`);
  await page.locator(`button[aria-label="Block ${carol}"]`).click();
  await has(page, "Nobody waits for your approval.");
  await eventually(async () => (await asker.relation(bob)).state === "followed");
  await assert.rejects(troll.feed(bob).older().next(), { kind: "feed-closed" });

  await page.type("#relations input", carol);
  await page.click("#relations button[value=follow]");
  await has(page, "unblock first");
  await page.click("#relations button[value=unblock]");
  await has(page, `You have unblocked ${carol}.`);
  await page.click("#private");
  await has(page, "Everybody may follow you.");
});

test("a page whose answers get lost publishes once, and goes on", async (t) => {
  const reader = clientOf("bob");
  const page = await open(t);
  await has(page, "0 unread");
  let lost = 2;
  await page.setRequestInterception(true);
  page.on("request", async (request) => {
    const isPublish = request.method() === "POST" && request.url().endsWith("/v1/posts");
    const isCount = request.url().endsWith("/v1/timeline/unread") && request.method() === "GET";
    const { "idempotency-key": key = "", authorization = "" } = request.headers();
    if (isPublish && lost === 2) {
      lost--;
      // It is carried out, and its answer is replaced.
      const headers = { authorization, "idempotency-key": key, "content-type": "application/json" };
      await fetch(request.url(), { method: "POST", headers, body: request.postData() ?? "" });
      await request.respond({ status: 400, headers: CORS, body: '{"detail":"Lost."}' });
    } else if (isCount && lost === 1) {
      lost--;
      await request.respond({ status: 400, headers: CORS, body: '{"detail":"No count."}' });
    } else await request.continue();
  });
  await page.type("#post textarea", "once");
  await page.click("#post button");
  await has(page, "Lost.");
  await page.click("#post button");
  await has(page, "Posted.");
  const texts: unknown[] = [];
  for await (const { entries } of reader.feed(bob).older())
    texts.push(...entries.map((each) => each.body?.["text"]));
  assert.equal(texts.filter((each) => each === "once").length, 1);

  await reader.follow(alice);
  await clientOf("alice").publish({ text: "after the follow" });
  await has(page, "No count.");
  await clientOf("alice").publish({ text: "and after the failure" });
  await has(page, "2 new posts");
});

test("a link to the page sends the user's token nowhere else", async (t) => {
  const stranger = await serve(t, () => ({
    json: {},
    headers: { "Access-Control-Allow-Origin": "*" },
  }));
  const page = await open(t);
  await has(page, `Signed in as ${bob}`);
  const named = new URLSearchParams({ api: stranger.url });
  await page.goto(`${page.url()}#${named}`);
  await page.reload();
  await has(page, `Signed in as ${bob}`);
  await has(page, "unread");
  const isSent = await page.evaluate(async (url) => {
    try {
      return (await fetch(url)).ok;
    } catch {
      return false;
    }
  }, stranger.url);
  assert.deepEqual([isSent, stranger.asked.length], [false, 0]);
});
