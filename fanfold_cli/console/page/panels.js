// Everything beside the ring.
import { $, ageText, clock, make, number, seconds, set, svg } from "./dom.js";

const MARK = { hurt: "×", heal: "+", good: "✓", info: "·" };
const LINES = 7;
let logged = 0;

export function showLog(events) {
  for (const each of events.filter((event) => event.number > logged)) {
    logged = each.number;
    const line = make("li", each.kind);
    line.append(
      make("time", "", clock(each.at)),
      make("i", "", MARK[each.kind]),
      make("span", "", each.text),
    );
    // Events are sorted by time: the ledger may report one that is older than the last line.
    line.dataset.at = each.at;
    const earlier = [...$("log").children].find(({ dataset }) => Number(dataset.at) <= each.at);
    $("log").insertBefore(line, earlier ?? null);
  }
  while ($("log").children.length > LINES) $("log").lastChild.remove();
}

export function showSmall(rings, shares) {
  const list = $("small");
  $("small-box").hidden = !rings.length;
  set(
    $("small-title"),
    rings.length === 1 ? "The other delivery" : `The other ${number(rings.length)} deliveries`,
  );
  while (list.children.length > rings.length) list.lastChild.remove();
  while (list.children.length < rings.length) {
    const item = make("li"),
      drawing = svg("svg", { viewBox: "0 0 40 40", "aria-hidden": "true" });
    svg("circle", { cx: 20, cy: 20, r: 15 }, drawing);
    svg("circle", { cx: 20, cy: 20, r: 15, class: "part", pathLength: 100 }, drawing);
    item.append(drawing, make("span"));
    list.append(item);
  }
  rings.forEach((ring, n) => {
    const item = list.children[n],
      done = ring.state === "complete";
    item.className = ring.state;
    item.title = `${ring.publisher_id}: ${number(ring.delivered)} of ${ring.followers ?? "?"}, ${ring.state}`;
    item
      .querySelector(".part")
      .setAttribute("stroke-dasharray", `${((shares[ring.ref_id] ?? 0) * 100).toFixed(1)} 100`);
    const mark = done ? " ✓" : ring.state === "stalled" ? " ×" : "";
    set(item.lastChild, `${ring.followers == null ? "…" : number(ring.followers)}${mark}`);
  });
}

export function showWorkers(workers) {
  $("workers").replaceChildren(
    ...workers.map((each) => {
      const item = make("li", each.state);
      const what =
        each.state === "busy"
          ? `${each.publisher_id} ${each.segments ? `${each.segment + 1}/${each.segments}` : "plan"}`
          : each.state === "killed"
            ? "× killed"
            : "idle";
      item.append(make("b", "", `${each.number}${each.is_twin ? " twin" : ""}`), what);
      item.title = what;
      return item;
    }),
  );
}

export function showQueues(queues) {
  $("queues").tBodies[0].replaceChildren(
    ...Object.entries(queues).map(([name, depth]) => {
      const row = make("tr"),
        head = make("th", "", name);
      head.scope = "row";
      row.append(head);
      for (const kind of ["waiting", "at_work", "delayed", "dead"])
        row.append(make("td", `${kind}${depth[kind] ? "" : " zero"}`, number(depth[kind])));
      return row;
    }),
  );
}

const seen = new Map();
export function showReaders(readers) {
  const box = $("readers");
  $("readers-box").hidden = !readers.length;
  if (box.children.length !== readers.length) {
    seen.clear();
    box.replaceChildren(
      ...readers.map((each) => {
        const card = make("article", "phone"),
          title = make("h3", "", each.user);
        title.append(make("span", "", "GET /v1/timeline"));
        card.append(title, make("ul"), make("p", "failure"));
        return card;
      }),
    );
  }
  readers.forEach((reader, n) => {
    const card = box.children[n],
      ids = reader.entries.map((each) => each.ref_id).join();
    set(card.querySelector(".failure"), reader.failure);
    if (seen.get(reader.user) === ids) return;
    const old = new Set((seen.get(reader.user) ?? "").split(",")),
      isFirst = !seen.has(reader.user);
    seen.set(reader.user, ids);
    card.querySelector("ul").replaceChildren(
      ...reader.entries.map((entry) => {
        const item = make("li", !isFirst && !old.has(entry.ref_id) ? "new" : "");
        item.dataset.ref = entry.ref_id;
        item.append(
          make("b", "", `${entry.text} `),
          make("span", "", `${entry.publisher_id}, ${entry.at.slice(11, 19)}`),
        );
        return item;
      }),
    );
  });
}

/** The age of each panel; the last state of a demo does not age. */
export function showAges(state, hasEnded) {
  const readers = state.readers.map((each) => each.read_at);
  const since = {
    state: state.read_at,
    readers: Math.min(...readers),
    rate: state.rate_at,
  };
  for (const each of document.querySelectorAll("[data-age]")) {
    const at = since[each.dataset.age];
    set(each, !hasEnded && at && Number.isFinite(at) ? `${ageText(at)} ago` : "");
  }
}

export function showFigures(state) {
  const { ring, hurting: hurt } = state;
  set($("n-lag"), seconds(ring ? (ring.lag_seconds ?? state.read_at - ring.accepted_at) : 0));
  set($("n-lag-what"), ring?.lag_seconds == null ? "since accepted" : "to reach all");
  set($("n-rate"), number(state.rate));
  set($("n-last"), number(hurt ? hurt.rewritten : state.open));
  set(
    $("n-last-what"),
    hurt ? "written again" : state.open === 1 ? "delivery open" : "deliveries open",
  );
}
