// A queue of pictures to check by keyboard: y, n, 1 to 9, u for none of these, x for not this. What is said is learnt.

import { openItem, ranked, settleBy, settleNot } from "./answer.js";
import { comeBack, remember, teach, undo } from "./changes.js";
import { $, bringUp, colour, count, make } from "./dom.js";
import { byDoubt, chosen } from "./pictures.js";
import { changed, inWords, labels, onChange, state } from "./state.js";
import { quietly, say } from "./telling.js";

const KEYS = 9;

let queue = []; // the pictures, in the order in which they are shown
let place = -1;

export const reviewing = () => place >= 0;

export function review(name) {
  queue = name === "suggested" ? chosen(name).sort((one, other) => one.suggested - other.suggested) : byDoubt(chosen(name));
  $("review-name").textContent = name === "suggested" ? "Label next" : "Doubtful";
  settleBy(settle);
  $("answer").classList.add("reviewing");
  show(0);
  bringUp($("answer"));
}

async function show(next) {
  place = next;
  if (place >= queue.length) {
    finish();
    return;
  }
  const one = queue[place];
  $("review-place").textContent = `${place + 1} of ${queue.length}`;
  Object.assign($("review-progress"), { max: queue.length, value: place });
  try {
    const explained = openItem(one, false);
    if (one.said) drawChoices(one);
    $("answer").focus({ preventScroll: true });
    await explained;
    if (place === next) drawChoices(one);
  } catch {
    if (place === next) skip(); // it cannot be read; its tile says so
  }
}

const skip = () => show(place + 1);

function finish() {
  const [labelled, none] = [queue.filter((one) => one.mark?.label).length, queue.filter((one) => one.mark && !one.mark.label).length];
  say(`${count(labelled, "picture")} labelled, ${none} none of these, ${queue.length - labelled - none} skipped.`);
  stop();
}

/** Leave the queue; what was said is kept. */
export function stop() {
  if (!reviewing()) return;
  place = -1;
  settleBy(null);
  $("answer").classList.remove("reviewing");
  $("answer").hidden = true;
  state.open = null;
  changed();
  bringUp($("pictures"));
  $("pictures").focus({ preventScroll: true });
}

function drawChoices({ said }) {
  $("choices").replaceChildren(...ranked(said).slice(0, KEYS).map((name, number) => make("li", {},
    make("button", { class: "choice", "--colour": colour(labels().indexOf(name)), onclick: () => settle(name) },
      make("kbd", { "aria-hidden": "true" }, String(number + 1)), make("span", {}, name), make("small", {}, said.percents[name])))));
}

// --------------------------------------------------------------------------------------------------- saying

const pending = []; // pictures that were labelled and wait to be learnt
let saving = null;

/** A person says what the picture is, or is not; the next one is shown at once. */
function settle(label, not) {
  const one = state.open;
  one.mark = { label, not };
  pending.push(one);
  remember(`calling ${one.name.split("/").at(-1)} ${inWords(one.mark)}`, () => unsay(one));
  save();
  changed();
  skip();
}

/** Learn what was said, several pictures at once if the person is quicker than the service. */
function save() {
  saving ??= (async () => {
    while (pending.length) {
      const items = pending.splice(0);
      const learnt = await quietly(async () => {
        const before = await teach(items.map((one) => ({ ...one.mark, picture: one.picture })), () => {});
        for (const one of items) one.batch = { before, items };
      });
      if (!learnt) for (const one of items) one.mark = null;
      changed();
    }
  })().finally(() => { saving = null; });
}

/** Take back what was said last: go back to before it was learnt, learn again what was learnt with it, show it again. */
async function unsay(one) {
  const waiting = pending.indexOf(one);
  if (waiting >= 0) pending.splice(waiting, 1);
  else if (one.mark) await saving;
  one.mark = null;
  if (one.batch) {
    const { before, items } = one.batch;
    one.batch = null;
    await quietly(() => comeBack(before));
    pending.unshift(...items.filter((other) => other !== one && other.mark));
    save();
  }
  changed();
  if (reviewing() && queue.includes(one)) show(queue.indexOf(one));
}

// ------------------------------------------------------------------------------------------------------ keys

const KEYS_OF = {
  y: () => $("accept").click(),
  n: () => $("truth").focus(),
  u: () => settle(null),
  x: settleNot,
  s: skip,
  z: undo,
  Escape: stop,
};

addEventListener("keydown", (event) => {
  if (!reviewing() || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const typing = event.target.closest?.("input, select, textarea");
  if (typing && event.key === "Enter") $("reject").click();
  else if (typing && event.key === "Escape") $("answer").focus({ preventScroll: true });
  else if (typing) return;
  else if (/^[1-9]$/.test(event.key)) $("choices").children[Number(event.key) - 1]?.firstChild.click();
  else if (KEYS_OF[event.key]) KEYS_OF[event.key]();
  else return;
  event.preventDefault();
});

$("skip").addEventListener("click", skip);
$("stop").addEventListener("click", stop);
onChange(() => { $("saving").textContent = pending.length || saving ? "Learning what you said …" : ""; });
