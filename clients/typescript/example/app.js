// A timeline on a page: what is new waits behind a button, what is older comes as one scrolls.
// Nothing of what users write is ever parsed as HTML: it is set as text.

import { Fanfold, Problem } from "fanfold-client";

import { claimsOf, textOf } from "./content.js";

const POLL_MS = 3_000;
// After so long, posts that were edited or retracted meanwhile are read again.
const READ_ANEW_MS = 180_000;
// The page says it when nothing answers for so long.
const DEADLINE_MS = 10_000;
// What a long session holds, once its reader is at the top again.
const HELD = 500;
// Requests to follow that are shown at a time.
const REQUESTS = 20;

const DONE = {
  follow: "followed",
  unfollow: "unfollowed",
  mute: "muted",
  unmute: "unmuted",
  block: "blocked",
  unblock: "unblocked",
};

const at = (id) => document.getElementById(id);
const say = (text) => (at("status").textContent = text);

/** Do what the user asks for, and forget what went wrong before. */
async function attempt(work) {
  at("problem").textContent = "";
  await unasked(work);
}

/** Do something, and say in the page's own place what has gone wrong. */
async function unasked(work) {
  try {
    await work();
  } catch (error) {
    if (error.name === "AbortError") return;
    say(""); // lest an old success stands beside it
    if (error.status === 401) return signOut();
    const isSilent = error.kind === "unreachable";
    // A browser may hide from a page that its token was refused.
    const also = isSilent ? " Is it running, and is the token still valid?" : "";
    at("problem").textContent = error.message + also;
  }
}

/** A token that is of no use is forgotten, and the form asks for another one. */
function signOut() {
  sessionStorage.removeItem("token");
  at("signed-in").hidden = true;
  at("who").textContent = "";
  at("sign-in").hidden = false;
  at("problem").textContent = "The token is not valid here, or has expired: sign in again.";
}

/**
 * The token: after `#`, which no server is sent, or of this tab, or typed in. The address comes
 * with the page: a link that could name it would be handed the token.
 */
async function signIn() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  history.replaceState(null, "", location.pathname); // no token in the history
  if (given) sessionStorage.setItem("token", given);
  const token = sessionStorage.getItem("token");
  at("sign-in").hidden = Boolean(token);
  if (!token) return;
  const { url } = await (await fetch("api.json")).json();
  await start(url, token);
}

at("sign-in").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("token", new FormData(event.target).get("token"));
  location.reload(); // nothing of who was signed in before stays
});

async function start(url, token) {
  const claims = claimsOf(token);
  if (!claims) return signOut();
  const { username, sub, exp } = claims;
  at("who").textContent = `Signed in as ${username ?? sub}`;
  // An app would ask its issuer for another token here.
  const stillValid = () => {
    if (exp * 1000 > Date.now()) return token;
    throw new Problem("no-user", "The token has expired: sign in again.", 401);
  };
  const client = new Fanfold({ url, token: stillValid, deadlineMs: DEADLINE_MS });
  const timeline = client.timeline({ limit: 20 });
  const items = new Map(); // what is on the page, by ref_id
  at("signed-in").hidden = false;

  function show(entries) {
    for (const entry of entries) {
      if (!items.has(entry.ref_id)) items.set(entry.ref_id, item(entry));
    }
    render();
  }

  /** The page as the timeline is now: its order, what is read, and how much waits. */
  function render() {
    const shown = timeline.entries.filter((each) => items.has(each.ref_id));
    const kept = new Set(shown.map((each) => each.ref_id));
    for (const [id, gone] of items) {
      if (!kept.has(id)) (gone.remove(), items.delete(id));
    }
    let next = at("entries").firstElementChild;
    for (const entry of shown) {
      const here = items.get(entry.ref_id);
      here.classList.toggle("unread", timeline.isUnread(entry));
      // What stands where it should is not moved: it keeps focus and place.
      if (here === next) next = next.nextElementSibling;
      else at("entries").insertBefore(here, next);
    }
    const waiting = timeline.entries.length - shown.length;
    at("new").hidden = waiting === 0;
    at("new").textContent = waiting === 1 ? "1 new post" : `${waiting} new posts`;
    at("older").hidden = !timeline.hasOlder;
    at("end").hidden = timeline.hasOlder;
  }

  /** After the user's own follow or mute the first page comes anew, and is shown at once. */
  function take(page) {
    if (page.isFirst) {
      at("entries").replaceChildren();
      items.clear();
      show(page.entries);
    } else {
      render();
    }
  }

  let isCounted = false;
  async function countUnread() {
    isCounted = false;
    const { unread, more } = await timeline.unread();
    isCounted = true;
    at("unread").textContent = `${unread}${more ? " or more" : ""} unread`;
  }

  let isLoading = false;
  async function loadOlder() {
    if (isLoading) return;
    isLoading = true;
    await unasked(async () => {
      for await (const page of timeline.older()) {
        if (page.isFirst) take(page);
        else show(page.entries);
        break; // one page: the next one when it is wanted
      }
      render();
    });
    isLoading = false;
  }

  let readAnewAt = Date.now();
  /** At the top begin anew now and then, without what was retracted since. */
  function freshen() {
    if (scrollY > 0 || Date.now() - readAnewAt < READ_ANEW_MS) return;
    readAnewAt = Date.now();
    timeline.reload();
  }

  function onRound(problem) {
    at("connection").textContent = problem ? "The service does not answer; trying again." : "";
    if (problem) return;
    freshen();
    if (!isCounted) unasked(countUnread); // again after each round, until it is answered
  }

  let polling = new AbortController();
  async function poll() {
    polling.abort();
    polling = new AbortController();
    const { signal } = polling;
    for await (const page of timeline.poll({ intervalMs: POLL_MS, onRound, signal })) {
      take(page);
      isCounted = false;
    }
  }

  at("new").addEventListener("click", () => {
    show(timeline.entries);
    timeline.trim(HELD);
    render();
    scrollTo({ top: 0 });
    at("entries").firstElementChild?.focus({ preventScroll: true });
  });
  at("older").addEventListener("click", loadOlder);
  new IntersectionObserver(([seen]) => seen.isIntersecting && items.size && loadOlder(), {
    rootMargin: "300px",
  }).observe(at("older"));
  at("read").addEventListener("click", () =>
    attempt(async () => {
      show(timeline.entries);
      await timeline.markRead();
      render();
      await countUnread();
      say("Everything is marked as read, on all your devices.");
    }),
  );
  // One key for one form: pressed again after a lost answer, it is the same post.
  let key = crypto.randomUUID();
  at("post").addEventListener("reset", () => (key = crypto.randomUUID()));
  at("post").addEventListener("submit", (event) => {
    event.preventDefault();
    const form = event.target;
    const text = new FormData(form).get("text").trim();
    if (!text) return (at("problem").textContent = "There is nothing to post yet.");
    attempt(async () => {
      try {
        await client.publish({ text }, { key });
      } catch (error) {
        if (error.kind !== "key-reused") throw error;
        key = crypto.randomUUID();
        throw new Error("Your earlier words were posted after all. Post again to add these.");
      }
      form.reset();
      say("Posted. Your followers have it in a moment.");
    });
  });
  at("relations").addEventListener("submit", (event) => {
    event.preventDefault();
    const publisher = new FormData(event.target).get("publisher").trim();
    const verb = event.submitter.value;
    attempt(async () => {
      const answer = await client[verb](publisher);
      // A private publisher is asked.
      say(`You have ${answer?.state ? "asked to follow" : DONE[verb]} ${publisher}.`);
      for await (const page of timeline.newer()) take(page);
      await countUnread();
    });
  });
  /** Who waits for approval, up to a screenful: an app would show more as one scrolls. */
  async function showAudience() {
    at("private").checked = (await client.me()).private;
    const waiting = [];
    for await (const { user_id } of client.requests()) {
      if (waiting.push(asking(user_id)) === REQUESTS) break;
    }
    at("requests").replaceChildren(...waiting);
    at("none").hidden = waiting.length > 0;
  }

  function asking(user_id) {
    const made = document.createElement("li");
    const button = (words, verb, done) => {
      const pressed = document.createElement("button");
      pressed.type = "button";
      pressed.textContent = words;
      pressed.setAttribute("aria-label", `${words} ${user_id}`);
      pressed.addEventListener("click", () =>
        attempt(async () => {
          try {
            await client[verb](user_id);
            say(`${user_id} ${done}.`);
          } finally {
            await showAudience(); // the request may have been taken back
          }
        }),
      );
      return pressed;
    };
    made.append(
      user_id,
      button("Approve", "approve", "follows you"),
      button("Deny", "remove", "does not follow you"),
      button("Block", "block", "is blocked"),
    );
    return made;
  }

  at("audience").addEventListener("toggle", () => at("audience").open && attempt(showAudience));
  at("private").addEventListener("change", ({ target }) =>
    attempt(async () => {
      try {
        const { enforced_from: from } = await client.setPrivate(target.checked);
        const time = from && new Date(from).toLocaleTimeString();
        say(time ? `Who follows you from ${time} on must ask.` : "Everybody may follow you.");
      } finally {
        await showAudience();
      }
    }),
  );
  // Nobody looks at a hidden page, so it asks nothing.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) return polling.abort();
    readAnewAt = 0; // at once, or when the reader is at the top again
    freshen();
    attempt(poll);
  });

  await timeline.loadMarker();
  await loadOlder();
  await attempt(poll);
}

function item({ ref_id, publisher_id, published_at, edited_at, body }) {
  const made = document.createElement("li");
  made.tabIndex = -1;
  made.dataset.refId = ref_id;
  const head = document.createElement("h3");
  const time = document.createElement("time");
  time.dateTime = published_at;
  time.textContent = new Date(published_at).toLocaleString() + (edited_at ? ", edited" : "");
  head.append(publisher_id, " · ", time);
  const text = document.createElement("p");
  text.textContent = textOf(body);
  made.append(head, text);
  return made;
}

attempt(signIn);
