// The ring: a tick for each 256th of the followers' hash space; around it, the ledger's segments.
import { number, set, svg } from "./dom.js";

const CELLS = 256,
  INNER = 182,
  OUTER = 246,
  ARC = 262,
  BADGE = 290,
  HOT_MS = 400,
  GAP = 0.0035;
const at = (turn, radius) => {
  const angle = turn * 2 * Math.PI - Math.PI / 2;
  return [Math.cos(angle) * radius, Math.sin(angle) * radius].map((each) => each.toFixed(2));
};
const line = (turn, from, to) => {
  const [[x1, y1], [x2, y2]] = [at(turn, from), at(turn, to)];
  return { x1, y1, x2, y2 };
};
const move = (node, place) => {
  for (const [key, value] of Object.entries(place)) node.setAttribute(key, value);
};
const arc = (from, to) => {
  const [[x, y], [u, v]] = [at(from, ARC), at(to, ARC)];
  return `M${x} ${y}A${ARC} ${ARC} 0 ${to - from > 0.5 ? 1 : 0} 1 ${u} ${v}`;
};

export class Ring {
  constructor(root) {
    this.root = root;
    const layer = () => svg("g", {}, root);
    const [tracks, fills, no, dots] = [layer(), layer(), layer(), layer()];
    [this.arcs, this.badges] = [layer(), layer()];
    this.cells = Array.from({ length: CELLS }, (_, cell) => {
      const turn = (cell + 0.5) / CELLS;
      svg("line", { class: "track", ...line(turn, INNER, OUTER) }, tracks);
      const [cx, cy] = at(turn, OUTER + 6),
        [fx, fy] = at(turn, INNER - 9);
      return {
        turn,
        share: -1,
        refused: 0,
        fill: svg("line", { class: "fill", ...line(turn, INNER, INNER) }, fills),
        no: svg("line", { class: "no", ...line(turn, OUTER - 9, OUTER) }, no),
        again: svg("circle", { class: "again", cx, cy, r: 0 }, dots),
        found: svg("circle", { class: "found", cx: fx, cy: fy, r: 0 }, dots),
      };
    });
    this.big = svg("text", { class: "big", y: 6 }, root);
    this.of = svg("text", { class: "of", y: 40 }, root);
    this.word = svg("text", { class: "word", y: 74 }, root);
    this.shown = "";
  }

  show(state) {
    const ring = state.ring;
    if (ring?.ref_id !== this.shown) for (const cell of this.cells) cell.refused = 0;
    this.shown = ring?.ref_id;
    this.cells.forEach((cell, n) => this.#cell(cell, n, ring));
    this.#ledger(ring, state.workers);
    const mood = state.headline.mood,
      done = ring?.state === "complete",
      inChannel = ring?.by === "channel";
    set(this.big, number(ring?.delivered));
    const of =
      ring?.followers == null
        ? "being planned"
        : inChannel
          ? "read it in the channel"
          : `of ${done || ring.have.length ? "" : "about "}${number(ring.followers)}`;
    set(this.of, ring ? of : "no delivery seen yet");
    const owed = ring?.segments
      ? `${ring.segments - ring.pending.length} of ${ring.segments} segments done`
      : (ring?.state ?? "");
    const words = done ? `✓ complete in ${ring.lag_seconds?.toFixed(1)} s` : owed;
    set(this.word, words);
    this.word.setAttribute("class", `word ${done ? "good" : mood}`);
    const have = inChannel ? `followers ${of}:` : `${of} followers have`;
    this.root.setAttribute(
      "aria-label",
      ring
        ? `${number(ring.delivered)} ${have} the post of ${ring.publisher_id}. ${words}.`
        : "Nothing is being delivered.",
    );
    this.root.dataset.ref = ring?.ref_id ?? "";
    this.root.dataset.share = ring ? (state.shares[ring.ref_id] ?? 0).toFixed(3) : "";
  }

  #cell(cell, n, ring) {
    const share = ring?.have[n] ?? 0;
    if (share !== cell.share) {
      move(cell.fill, line(cell.turn, INNER, INNER + (OUTER - INNER) * Math.min(1, share)));
      cell.fill.style.display = share ? "" : "none";
      cell.share = share;
    }
    const refused = ring?.refused[n] ?? 0;
    if (refused > cell.refused) {
      cell.no.classList.add("hot");
      clearTimeout(cell.timer);
      cell.timer = setTimeout(() => cell.no.classList.remove("hot"), HOT_MS);
    }
    cell.refused = refused;
    cell.again.setAttribute("r", (2.7 * Math.sqrt(Math.min(1, ring?.again[n] ?? 0))).toFixed(2));
    const found = ring?.found[n] ?? -1;
    cell.found.setAttribute("r", found < 0 ? 0 : 4);
    cell.found.classList.toggle("yes", found === 1);
  }

  #ledger(ring, workers) {
    const segments = Math.min(ring?.segments ?? 0, CELLS);
    if (segments !== this.arcs.childElementCount) {
      this.arcs.replaceChildren(
        ...Array.from({ length: segments }, (_, n) =>
          svg("path", {
            class: "arc",
            d: arc(n / segments + GAP, (n + 1) / segments - GAP - (segments === 1 ? 0.001 : 0)),
          }),
        ),
      );
    }
    const badges = [];
    for (let n = 0; n < segments; n++) {
      const scale = ring.segments / segments;
      const isDone = !ring.pending.some((each) => Math.floor(each / scale) === n);
      const holders = workers.filter(
        (w) => w.state === "busy" && w.ref_id === ring.ref_id && w.segment === n,
      );
      const per = CELLS / segments,
        first = Math.floor(n * per);
      let head = first,
        tail = first;
      for (let cell = first; cell < (n + 1) * per; cell++) {
        if (ring.have[cell]) head = cell;
        if (ring.again[cell]) tail = cell;
      }
      const isGone = !isDone && workers.length > 0 && ring.have[head] > 0 && !holders.length;
      this.arcs.children[n].setAttribute("class", `arc${isDone ? " done" : isGone ? " gone" : ""}`);
      if (isDone) continue;
      if (isGone) badges.push(["gone", "×", head]);
      if (holders[0]) badges.push(["", holders[0].number, head]);
      if (holders[1]) badges.push(["twin", holders[1].number, head - tail < 6 ? head - 6 : tail]);
    }
    this.badges.replaceChildren(
      ...badges.map(([cls, text, cell]) => {
        const [x, y] = at((cell + 0.5) / CELLS, BADGE);
        const badge = svg("g", { class: `badge ${cls}`, transform: `translate(${x} ${y})` });
        svg("circle", { r: 14 }, badge);
        svg("text", { y: 5.5 }, badge).textContent = text;
        return badge;
      }),
    );
  }
}
