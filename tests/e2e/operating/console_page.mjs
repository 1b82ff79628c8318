// People at the page of `fanfold console` and `fanfold demo --hurt`, in headless Chromium; run by
// test_console.py, which names the scene.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join } from "node:path";

// The browser and its driver are those of the TypeScript client's tests.
const require = createRequire(new URL("../../../clients/typescript/package.json", import.meta.url));
const whole = (module) => module.default ?? module;
const chromium = whole(require("@sparticuz/chromium")),
    puppeteer = whole(require("puppeteer-core"));
const {
    FANFOLD_ADDRESS: address,
    FANFOLD_PICTURES: pictures,
    FANFOLD_CHROME: chrome = "",
    FANFOLD_SCENE: scene,
} = process.env;
const PATIENCE = { timeout: 240_000, polling: 100 };

const browser = await puppeteer.launch({
    args: chrome ? [] : chromium.args,
    executablePath: chrome || (await chromium.executablePath()),
    headless: "shell",
    protocolTimeout: 2 * PATIENCE.timeout, // a wait is one call, which shall not end before it
});
const page = await browser.newPage();
const problems = [];
// From the first kill on: it may find no worker at work, and a publish rows that are counted. Any
// other act that is refused has not happened, so that a wait fails.
let mayBeRefused = false;
page.on("pageerror", (error) => problems.push(error.message));
page.on("console", (message) => {
    const isRefusal =
        message.text().includes("status of 400") ||
        (mayBeRefused && message.text().includes("status of 409"));
    if (message.type() === "error" && !isRefusal) problems.push(message.text());
});
page.on("request", (request) => {
    if (!request.url().startsWith(new URL(address).origin) && !request.url().startsWith("data:"))
        problems.push(`asked elsewhere: ${request.url()}`);
});

const until = (claim, ...values) => page.waitForFunction(claim, PATIENCE, ...values);
const text = (selector) => page.$eval(selector, (each) => each.textContent);
const mood = (wanted) =>
    until((each) => document.querySelector("#headline").dataset.mood === each, wanted);
const share = (least) =>
    until((each) => Number(document.querySelector("#ring").dataset.share) >= each, least);
const number = async (selector) => Number((await text(selector)).replaceAll(/[^\d]/g, ""));

/** Both widths in both schemes, kept to be looked at. */
async function picture(name) {
    for (const width of [1280, 360])
        for (const scheme of ["light", "dark"]) {
            await page.setViewport({ width, height: 900 });
            await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
            await page.screenshot({
                path: join(pictures, `${name}-${width}-${scheme}.png`),
                fullPage: true,
            });
            const overflow = await page.evaluate(
                () => document.documentElement.scrollWidth - innerWidth,
            );
            assert.ok(overflow <= 0, `${name}: ${overflow} px too wide at ${width} px`);
        }
    await page.setViewport({ width: 1280, height: 900 });
}

async function publish(press) {
    const before = await page.$eval("#ring", (each) => each.dataset.ref);
    await press();
    await until((old) => document.querySelector("#ring").dataset.ref !== old, before);
}

/** Whether a worker was in mid-segment, and is killed. */
async function kill() {
    mayBeRefused = true;
    const [answer] = await Promise.all([
        page.waitForResponse(
            (each) => each.request().postData() === JSON.stringify({ what: "kill" }),
            PATIENCE,
        ),
        page.click("#b-kill"),
    ]);
    return answer.ok();
}

/** All of it arrived, and all three readers see it once, on a page that was never loaded again. */
async function arrives() {
    await share(1);
    await until(() => document.querySelector("#ring .word").textContent.includes("complete"));
    await until(() => {
        const ref = document.querySelector("#ring").dataset.ref;
        const cards = [...document.querySelectorAll("#readers .phone")];
        return (
            cards.length === 3 &&
            cards.every((card) => card.querySelectorAll(`[data-ref="${ref}"]`).length === 1)
        );
    });
    assert.equal(await page.evaluate(() => window.loadedOnce), true);
    const [, have, want] = /^([\d,]+) of ([\d,]+) followers/.exec(
        await page.$eval("#ring", (each) => each.getAttribute("aria-label")),
    );
    assert.equal(have, want);
}

/** Everything that Tab reaches, as ids, commands or names. */
async function reached(presses) {
    const found = [];
    while (presses--) {
        await page.keyboard.press("Tab");
        found.push(
            await page.evaluate(() => {
                const each = document.activeElement;
                return each.id || each.dataset.command || each.name || each.className;
            }),
        );
    }
    return found;
}

/** An operator, with the keyboard alone. */
async function operate() {
    const found = await reached(30);
    for (const each of [
        "skip",
        "id",
        "fanout list",
        "fanout abandon --yes",
        "dlq redrive",
        "dlq drop --yes",
        "level",
        "shards grow --yes",
        "publisher",
        "doctor --repair",
    ])
        assert.ok(found.includes(each), `${each} is not reached: ${found}`);
    await picture("console");
    const ask = async (command, label) => {
        await page.focus(`[data-command="${command}"][data-label="${label}"]`);
        await page.keyboard.press("Enter");
        await page.waitForSelector("dialog[open]", PATIENCE);
    };
    await ask("dlq redrive", "Redrive all");
    assert.match(await text("#confirm-command"), /^fanfold dlq redrive --home /);
    assert.match(await text("#confirm-yes"), /changes the stack/);
    assert.equal(await page.evaluate(() => document.activeElement.id), "confirm-no");
    await picture("confirm");
    await page.keyboard.press("Escape");
    await page.waitForSelector("dialog:not([open])", PATIENCE);
    assert.equal(await text("#result"), "", "what is not confirmed is not run");
    await ask("fanout list", "List");
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await until(() =>
        document.querySelector("#result .good")?.textContent.startsWith("✓ fanfold fanout list"),
    );
    assert.match(await text("#result pre"), /"counts"/);
    // A command that cannot be meant is refused in a sentence.
    await page.focus('[data-command="fanout show"]');
    await page.keyboard.press("Enter");
    await until(() => document.querySelector("#result .failure"));
}

/** An operator who presses a second button before the bridge has answered the first one. */
async function questions() {
    // Answers to questions arrive when the operator has pressed both buttons.
    await page.evaluate(() => {
        const fetched = window.fetch;
        let release;
        const released = new Promise((resolve) => (release = resolve));
        window.release = release;
        window.fetch = async (path, given) => {
            if (path === "/act" && !("run" in JSON.parse(given.body))) await released;
            return fetched(path, given);
        };
    });
    await page.type('form [name="id"]', "a-post");
    await page.click('[data-command="fanout show"]');
    await page.click('[data-command="fanout abandon --yes"]');
    await page.evaluate(() => window.release());
    await page.waitForSelector("dialog[open]", PATIENCE);
    await page.waitForNetworkIdle({ ...PATIENCE, idleTime: 50, concurrency: 1 });
    const shown = await text("#confirm-command");
    assert.match(shown, /^fanfold fanout show /);
    // Header, title and question say where: stack, account, region; prod has a colour of its own.
    const place = "Fanfold-prod (account 123456789012, eu-central-1)";
    assert.equal(await text("#confirm-title"), `${place}: run this?`);
    assert.equal(await text("#where"), place);
    assert.equal(await page.title(), `${place} · Fanfold console`);
    const colour = () => page.$eval("#where", (each) => getComputedStyle(each).backgroundColor);
    const ofProd = await colour();
    await page.evaluate(() => document.body.removeAttribute("data-protected"));
    assert.notEqual(await colour(), ofProd);
    await page.evaluate(() => document.body.setAttribute("data-protected", ""));
    await picture("prod");
    await page.click("#confirm-yes");
    await page.waitForSelector("#result .good", PATIENCE);
    assert.equal(await text("#result .good"), `✓ ${shown}`);
    // The next question is asked again.
    await page.click('[data-command="fanout abandon --yes"]');
    await page.waitForSelector("dialog[open]", PATIENCE);
    assert.match(await text("#confirm-command"), /^fanfold fanout abandon /);
    await page.keyboard.press("Escape");
    await page.waitForSelector("dialog:not([open])", PATIENCE);
    await keepsApart();
}

/** An operator who runs a second command before the first has ended: each keeps its own result. */
async function keepsApart() {
    // Answers to what is run arrive when the test says so.
    await page.evaluate(() => {
        window.ends = [];
        const fetched = window.fetch;
        window.fetch = async (path, given) => {
            const answer = await fetched(path, given);
            if (path === "/act" && "run" in JSON.parse(given.body))
                await new Promise((resolve) => window.ends.push(resolve));
            return answer;
        };
    });
    const run = async (command, runs) => {
        await page.click(`[data-command="${command}"]`);
        await page.waitForSelector("dialog[open]", PATIENCE);
        await page.click("#confirm-yes");
        await until((count) => window.ends.length === count, runs);
    };
    await run("fanout show", 1);
    await run("fanout list", 2);
    const results = () =>
        page.$$eval("#result p:first-child", (all) => all.map((each) => each.innerText));
    const starts = (found, ...wanted) => {
        assert.equal(found.length, wanted.length, found);
        wanted.forEach((each, place) => assert.ok(found[place].startsWith(each), found));
    };
    starts(await results(), "Running: fanfold fanout list", "Running: fanfold fanout show");
    await page.evaluate(() => window.ends[0]());
    await page.waitForSelector("#result .good", PATIENCE);
    starts(await results(), "Running: fanfold fanout list", "✓ fanfold fanout show");
    await page.evaluate(() => window.ends[1]());
    await until(() => document.querySelectorAll("#result .good").length === 2);
    starts(await results(), "✓ fanfold fanout list", "✓ fanfold fanout show");
    // What has ended makes room for the next.
    await run("fanout show", 3);
    starts(await results(), "Running: fanfold fanout show");
    await page.evaluate(() => window.ends[2]());
    await page.waitForSelector("#result .good", PATIENCE);
}

/** Somebody who looks at a page that has read nothing new for an hour. */
async function old() {
    assert.equal(await text("#headline span"), "Nothing is owed to anybody.");
    const log = await page.$$eval("#log li", (lines) => lines.map((line) => line.innerText));
    assert.deepEqual(
        log.map((line) => line.replaceAll(/\s+/g, " ")),
        ["00:00:17 × Killed.", "00:00:03 · Accepted."],
    );
    await page.evaluate(() => {
        const now = Date.now;
        Date.now = () => now() + 3_600_000;
    });
    await until(() =>
        /^What you see is 1 h 0 min old$/.test(document.querySelector("#headline b").textContent),
    );
    assert.match(await text("#headline"), /last read at \d\d:\d\d:\d\d UTC/);
    const shown = await page.evaluate(() => document.body.innerText);
    assert.ok(!shown.includes("Nothing is owed"), shown);
    assert.equal(await text("h2:has(#queues-title) small"), "1 h 0 min ago");
    await picture("old");
}

/** Somebody who skips to the buttons, loads the page again, and leaves it open. */
async function refreshes() {
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await until(() => document.activeElement.id === "operate");
    await page.evaluateOnNewDocument(() => {
        const add = document.addEventListener;
        window.listeners = 0;
        document.addEventListener = function (...given) {
            window.listeners += 1;
            return add.apply(this, given);
        };
    });
    await page.reload();
    await page.waitForSelector("body[data-ready]", PATIENCE);
    await until(
        () =>
            performance.getEntriesByType("resource").filter(({ name }) => name.endsWith("/state"))
                .length > 10,
    );
    assert.equal(await page.evaluate(() => window.listeners), 1);
}

/** Somebody who publishes, kills, throttles, doubles and counts. */
async function hurt() {
    // The keyboard alone reaches every button, and shows where it is.
    const found = await reached(12);
    for (const id of ["skip", "b-publish", "b-kill", "b-throttle", "b-twice", "b-count"])
        assert.ok(found.includes(id), `${id} is not reached: ${found}`);
    await page.focus("#b-kill");
    assert.notEqual(
        await page.$eval("#b-kill", (each) => getComputedStyle(each).outlineStyle),
        "none",
    );

    // Publish, by its key.
    await publish(() => page.keyboard.press("p"));
    await share(0.2);
    await picture("delivering");
    await arrives();
    await picture("delivered");

    // Kill a worker in mid-segment: amber, and healed. As in the script, once more if all was over
    // before that, on a machine that is busy with something else.
    for (let left = 3, isKilled = false; !isKilled; left -= 1) {
        assert.ok(left > 0, "There was no worker in mid-segment.");
        await publish(() => page.click("#b-publish"));
        await share(0.3);
        isKilled = await kill();
        if (!isKilled) await arrives();
    }
    await mood("hurt");
    await until(() => document.querySelector("#headline b").textContent.includes("worker is gone"));
    await picture("killed");
    await arrives();
    await mood("good");

    // Throttle, by Enter on its button.
    await page.focus("#b-throttle");
    await page.keyboard.press("Enter");
    await page.waitForSelector("#b-throttle[aria-pressed=true]", PATIENCE);
    await publish(() => page.click("#b-publish"));
    await until(() => document.querySelector("#headline b").textContent.includes("refuses"));
    await page.waitForSelector("#ring .no.hot", PATIENCE);
    await picture("throttled");
    await page.click("#b-throttle");
    await arrives();

    // Deliver everything twice: written again, and seen once.
    await page.keyboard.press("d");
    await page.waitForSelector("#b-twice[aria-pressed=true]", PATIENCE);
    await publish(() => page.click("#b-publish"));
    await until(
        () => Number(document.querySelector("#n-last").textContent.replace(/[^0-9]/g, "")) > 100,
    );
    await picture("twice");
    await arrives();
    assert.ok((await number("#n-last")) > 100);

    // Counted while a publish is in flight: it comes to its end before that, or comes too late.
    await page.keyboard.press("p");
    await page.keyboard.press("c");
    await until(() => document.querySelector("#log").textContent.includes("demo: delivered"));
    const [, delivered, expected] = /^([\d,]+) of ([\d,]+) delivered, 0 lost, 0 seen twice$/.exec(
        await text("#headline b"),
    );
    assert.equal(delivered, expected);
    await mood("good");
    await picture("counted");
}

try {
    await page.goto(address);
    await page.waitForSelector("body[data-ready]", PATIENCE);
    await page.evaluate(() => (window.loadedOnce = true));
    assert.equal(new URL(page.url()).hash, "", "the key is not left in the history");
    await { hurt, old, operate, questions, refreshes }[scene]();
    assert.deepEqual(problems, []);
} finally {
    await browser.close();
}
