// An operator's commands: the bridge shows each command, and runs it once it is confirmed.
import { act } from "./bridge.js";
import { $, make } from "./dom.js";

const FORMS = [
  [
    "Deliveries",
    [
      ["fanout list", "List", {}],
      ["fanout show", "Show", { id: "ref_id" }],
      ["fanout resend", "Send again", { id: "ref_id" }],
      ["fanout abandon --yes", "Abandon", { id: "ref_id" }],
    ],
  ],
  [
    "Dead letters",
    [
      ["dlq list", "List", {}],
      ["dlq show", "Show", { id: "message id" }],
      ["dlq redrive", "Redrive", { id: "message id" }],
      ["dlq redrive", "Redrive all", {}],
      ["dlq drop --yes", "Drop", { id: "message id" }],
    ],
  ],
  [
    "Write shards",
    [
      ["shards show --estimate", "Show", { id: "publisher" }],
      ["shards grow --yes", "Grow to level", { id: "publisher", option: "level" }],
    ],
  ],
  [
    "Doctor",
    [
      ["doctor", "Examine", { option: "publisher" }],
      ["doctor --repair", "Repair", { option: "publisher" }],
    ],
  ],
];

function field(form, name, label) {
  const input = make("input"),
    box = make("label", "", label);
  Object.assign(input, { name, autocomplete: "off", spellcheck: false });
  box.append(input);
  form.append(box);
}

export function buildForms() {
  for (const [title, commands] of FORMS) {
    const form = make("form");
    form.append(make("h3", "", title));
    const ids = new Set(commands.map(([, , takes]) => takes.id).filter(Boolean));
    if (ids.size) field(form, "id", [...ids][0]);
    for (const name of new Set(commands.map(([, , takes]) => takes.option).filter(Boolean)))
      field(form, name, name);
    const row = make("div", "row");
    for (const [command, label, takes] of commands) {
      const button = make("button", "", label);
      button.type = "button";
      Object.assign(button.dataset, { command, label });
      button.addEventListener("click", () => ask(form, command, takes));
      row.append(button);
    }
    form.append(row);
    form.addEventListener("submit", (event) => event.preventDefault());
    $("forms").append(form);
  }
}

export function showRights(state) {
  $("may").textContent = state.may_operate
    ? "Each button shows the command that it stands for, and runs it once you confirm."
    : "This page only reads. To redrive, drop, send again, abandon, grow or repair, start it with --operate.";
}

let isAsking = false;
async function ask(form, command, takes) {
  // One question at a time: the dialog must not change while somebody presses a button.
  if (isAsking) return;
  isAsking = true;
  $("forms").setAttribute("aria-busy", "true");
  const values = Object.fromEntries(new FormData(form)),
    content = { command };
  if (takes.id) content.id = values.id.trim();
  if (takes.option) content.options = { [takes.option]: values[takes.option].trim() };
  try {
    const asked = await act(content);
    if (await confirmed(asked)) run(asked);
  } catch (error) {
    fail(opened(), error.message);
  } finally {
    isAsking = false;
    $("forms").removeAttribute("aria-busy");
  }
}

function confirmed({ place, command, note, changes }) {
  const dialog = $("confirm");
  $("confirm-title").textContent = `${place}: run this?`;
  $("confirm-command").textContent = command;
  $("confirm-note").textContent = note;
  $("confirm-yes").textContent = changes ? "Run it: it changes the stack" : "Run it";
  dialog.returnValue = "";
  dialog.showModal();
  $("confirm-no").focus();
  return new Promise((resolve) =>
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true }),
  );
}
$("confirm-yes").addEventListener("click", () => $("confirm").close("yes"));
$("confirm-no").addEventListener("click", () => $("confirm").close(""));

// A pane for each command. A new one removes the panes of ended commands, not of running ones.
function opened() {
  for (const each of [...$("result").children]) if (!each.hasAttribute("aria-busy")) each.remove();
  const pane = make("div");
  $("result").prepend(pane);
  return pane;
}

async function run({ question, command }) {
  const pane = opened();
  pane.replaceChildren(make("p", "", `Running: ${command}`));
  pane.setAttribute("aria-busy", "true");
  try {
    show(pane, await act({ run: question }));
  } catch (error) {
    fail(pane, error.message);
  } finally {
    pane.removeAttribute("aria-busy");
  }
}

function fail(pane, sentence) {
  pane.replaceChildren(make("p", "failure", `× ${sentence}`));
}

function show(pane, { command, succeeded, result, said }) {
  const parts = [make("p", succeeded ? "good" : "failure", `${succeeded ? "✓" : "×"} ${command}`)];
  if (said) parts.push(make("p", "", said));
  if (result !== null) parts.push(make("pre", "", JSON.stringify(result, null, 2)));
  pane.replaceChildren(...parts);
}
