// A timeline on a page: what is new waits behind a button, what is older comes as one scrolls.
// Nothing of what users write is ever parsed as HTML: it is set as text.

import { Fanfold } from "fanfold-client";

const POLL_MS = 3_000;
// What a long session holds, once its reader is at the top again.
const HELD = 500;

const at = (id) => document.getElementById(id);
const say = (text) => (at("status").textContent = text);

/** Do something, and say in the page's own place what has gone wrong. */
async function attempt(work) {
  try {
    at("problem").textContent = "";
    await work();
  } catch (error) {
    if (error.name === "AbortError") return;
    const isSilent = error.kind === "unreachable";
    // A browser may hide from a page that its token was refused.
    const also = isSilent ? " Is it running, and is the token still valid?" : "";
    at("problem").textContent = error.message + also;
  }
}

function claimsOf(token) {
  const part = token.split(".")[1].replaceAll("-", "+").replaceAll("_", "/");
  return JSON.parse(atob(part));
}

/** The address and the token: after `#`, which no server is sent, or of this tab, or typed in. */
function signIn() {
  const given = new URLSearchParams(location.hash.slice(1));
  history.replaceState(null, "", location.pathname); // no token in the history
  for (const name of ["api", "token"]) {
    if (given.has(name)) sessionStorage.setItem(name, given.get(name));
  }
  const [api, token] = ["api", "token"].map((name) => sessionStorage.getItem(name));
  at("sign-in").hidden = Boolean(api && token);
  if (api && token) return attempt(() => start(api, token));
}

at("sign-in").addEventListener("submit", (event) => {
  event.preventDefault();
  for (const [name, value] of new FormData(event.target)) sessionStorage.setItem(name, value);
  signIn();
});

async function start(url, token) {
  const { username, sub, exp } = claimsOf(token);
  at("who").textContent = `Signed in as ${username ?? sub}`;
  // An app would ask its issuer for another token here.
  const stillValid = () => {
    if (exp * 1000 > Date.now()) return token;
    sessionStorage.clear();
    throw new Error("The token has expired: sign in again.");
  };
  const client = new Fanfold({ url, token: stillValid });
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

  async function countUnread() {
    const { unread, more } = await timeline.unread();
    at("unread").textContent = `${unread}${more ? " or more" : ""} unread`;
  }

  let isLoading = false;
  async function loadOlder() {
    if (isLoading) return;
    isLoading = true;
    await attempt(async () => {
      for await (const page of timeline.older()) {
        if (page.isFirst) take(page);
        else show(page.entries);
        break; // one page: the next one when it is wanted
      }
      render();
    });
    isLoading = false;
  }

  let polling = new AbortController();
  async function poll() {
    polling.abort();
    polling = new AbortController();
    const { signal } = polling;
    for await (const page of timeline.poll({ intervalMs: POLL_MS, signal })) {
      take(page);
      await countUnread();
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
  at("post").addEventListener("submit", (event) => {
    event.preventDefault();
    const form = event.target;
    attempt(async () => {
      await client.publish({ text: new FormData(form).get("text") });
      form.reset();
      say("Posted. Your followers have it in a moment.");
    });
  });
  at("relations").addEventListener("submit", (event) => {
    event.preventDefault();
    const publisher = new FormData(event.target).get("publisher").trim();
    const verb = event.submitter.value;
    const done = { follow: "followed", unfollow: "unfollowed", mute: "muted", unmute: "unmuted" };
    attempt(async () => {
      await client[verb](publisher);
      say(`You have ${done[verb]} ${publisher}.`);
      for await (const page of timeline.newer()) take(page);
      await countUnread();
    });
  });
  // Nobody looks at a hidden page, so it asks nothing.
  document.addEventListener("visibilitychange", () =>
    document.hidden ? polling.abort() : attempt(poll),
  );

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
  text.textContent = String(body?.text ?? body?.title ?? JSON.stringify(body));
  made.append(head, text);
  return made;
}

signIn();
