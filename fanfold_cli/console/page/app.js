// Polls the bridge for the state while the page is visible, and draws it.
import { act, getState } from "./bridge.js";
import { $, age, ageText, clock, set } from "./dom.js";
import { buildForms, showRights } from "./operate.js";
import {
  showAges,
  showFigures,
  showLog,
  showQueues,
  showReaders,
  showSmall,
  showWorkers,
} from "./panels.js";
import { Ring } from "./ring.js";

const WORDS = { calm: "quiet", busy: "delivering", hurt: "needs a look", good: "delivered" };
const AGAIN_MS = 2000,
  MOST_AGAIN_MS = 15000,
  TICK_MS = 1000,
  // A state is old after these: two refreshes may be slow.
  OLD_REFRESHES = 3,
  OLD_SECONDS = 3;
const ring = new Ring($("ring"));
let last = null,
  problem = null,
  ended = false,
  wake = () => {};

const acts = {
  publish: () => ({}),
  kill: () => ({}),
  throttle: () => ({ on: !last?.hurting?.throttled }),
  twice: () => ({ on: !last?.hurting?.twice }),
  count: () => ({}),
};
for (const [what, content] of Object.entries(acts))
  $(`b-${what}`).addEventListener("click", async () => {
    try {
      await act({ what, ...content() });
    } catch (error) {
      headline({ mood: "hurt", title: "That did not work", text: error.message });
    }
  });
const KEYS = { p: "b-publish", k: "b-kill", t: "b-throttle", d: "b-twice", c: "b-count" };
addEventListener("keydown", (event) => {
  const isTyping = event.target.closest?.("input, dialog");
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || isTyping || !last?.hurting)
    return;
  $(KEYS[event.key.toLowerCase()])?.click();
});

function headline({ mood, title, text }, isHealing = false) {
  $("headline").dataset.mood = $("mood").dataset.mood = mood;
  set($("headline").firstElementChild, title);
  set($("headline").lastElementChild, text);
  set($("mood").lastElementChild, isHealing && mood === "hurt" ? "hurt, and healing" : WORDS[mood]);
}

function show(state) {
  last = state;
  const hurt = state.hurting;
  document.body.dataset.mode = hurt ? "hurt" : "watch";
  $("skip").href = hurt ? "#controls" : "#operate";
  document.body.toggleAttribute("data-protected", state.is_protected);
  document.title = `${state.where} · Fanfold console`;
  set($("where"), state.where);
  set($("cost"), state.cost);
  set($("status"), state.status);
  set($("k-done"), hurt ? "in the timeline" : "delivered, by the ledger");
  set(
    $("ring-title"),
    state.ring
      ? `The post of ${state.ring.publisher_id}, its followers in hash order`
      : "One post, its followers in hash order",
  );
  ring.show(state);
  showFigures(state);
  showSmall(state.others, state.shares);
  showLog(state.events);
  showQueues(state.queues);
  showReaders(state.readers);
  if (hurt) {
    showWorkers(state.workers);
    $("b-throttle").setAttribute("aria-pressed", hurt.throttled);
    $("b-twice").setAttribute("aria-pressed", hurt.twice);
    for (const what of Object.keys(acts)) $(`b-${what}`).disabled = hurt.has_ended;
    set($("publish-what"), hurt.publishes);
    set(
      $("script"),
      hurt.is_scripted ? `${hurt.act} Any button takes over.` : "you are in control",
    );
    ended = hurt.has_ended;
  } else showRights(state);
  problem = null;
  tell();
  document.body.dataset.ready = "yes";
}

/** Show the headline, or that the state is too old for it. */
function tell() {
  if (!last) return;
  const isOld = !ended && age(last.read_at) > OLD_REFRESHES * last.every_seconds + OLD_SECONDS;
  document.body.toggleAttribute("data-old", isOld);
  showAges(last, ended);
  if (problem || (isOld && !last.failure))
    headline(
      problem ?? {
        mood: "hurt",
        title: `What you see is ${ageText(last.read_at)} old`,
        text: `The stack was last read at ${clock(last.read_at)} UTC, and has not answered since.`,
      },
    );
  else headline(last.headline, last.hurting !== null && !last.hurting.has_ended);
}

async function watch() {
  for (let failures = 0; ;) {
    try {
      if (!document.hidden) show(await getState());
      failures = 0;
    } catch (error) {
      failures += 1;
      if (ended) return;
      problem = { mood: "hurt", title: "The bridge does not answer", text: error.message };
      headline(problem);
    }
    const pause = failures
      ? Math.min(MOST_AGAIN_MS, AGAIN_MS * failures)
      : (last?.every_seconds ?? 1) * 1000;
    await new Promise((resolve) => {
      wake = resolve;
      setTimeout(resolve, pause);
    });
  }
}
// A page that becomes visible asks immediately.
document.addEventListener("visibilitychange", () => !document.hidden && wake());
buildForms();
setInterval(tell, TICK_MS);
watch();
