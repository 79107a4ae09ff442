// Changes of the classifier, each of which can be undone: the service keeps every revision.

import * as api from "./api.js";
import { $, count } from "./dom.js";
import { changed, inWords, NONE, onChange, state, version } from "./state.js";
import { busily, progress, say } from "./telling.js";

const done = []; // {text, undo}, the last one last

/** Remember how to undo what was done; `undo` runs by itself, after all other work. */
export function remember(text, undo) {
  done.push({ text, undo });
  changed();
}

export async function undo() {
  const last = done.pop();
  if (!last) return;
  changed();
  await last.undo();
  say(`Undone: ${last.text}.`);
}

onChange(() => {
  $("undo").hidden = !done.length;
  const text = done.at(-1)?.text;
  if (text) $("undo").title = `Undo: ${text}`;
});

export function take(classifier) {
  state.classifier = classifier;
  state.suspects = [];
  state.ruledOut = [];
  history.replaceState(null, "", classifier ? `#${classifier.id}` : "#");
  changed();
  if (classifier) listRuledOut();
}

async function listRuledOut() {
  const of = version();
  const found = await api.ruledOut(state.classifier.id).catch(() => []);
  if (of !== version()) return;
  state.ruledOut = found;
  changed();
}

/** A classifier whose pictures have the numbers that they had before. */
const numberedAs = (before, now) => (before.id === now.id ? { ...now, numbered: before.numbered ?? before.revision } : now);

/** What it takes to come back to the classifier as it is now. */
const here = () => ({ id: state.classifier.id, revision: state.classifier.revision });

export async function comeBack({ id, revision }) {
  const { id: now } = state.classifier;
  if (id === now) return take(await api.goBack(id, revision));
  take(await api.get(id)); // it came with the service; what was taught is a copy
  await api.remove(now).catch(() => {});
}

/** Do one change, which `Undo` takes back; `sameNumbers`: the pictures learnt from keep their numbers. */
export async function change(text, work, sameNumbers = false) {
  const before = here();
  const changedOne = await work(state.classifier);
  take(sameNumbers ? numberedAs(state.classifier, changedOne) : changedOne);
  remember(text, () => busily(`Undoing: ${text}`, () => comeBack(before)));
}

/** Teach shots {label, picture}, however many; those without a label rule out, see `inWords`. Where to come back to. */
export async function teach(shots, tell = progress) {
  const before = here();
  let taught = 0;
  const ruling = shots.filter(({ label }) => label === null).map(({ not, picture }) => ({ label: not ?? NONE, picture }));
  for (const [some, send] of [[shots.filter(({ label }) => label !== null), api.add], [ruling, api.ruleOut]]) {
    for await (const portion of api.portions(some, state.limits)) {
      if (shots.length > portion.length) tell(`Learning ${count(shots.length, "picture")}`, taught + 1, shots.length);
      take(numberedAs(state.classifier, await send(state.classifier.id, portion)));
      taught += portion.length;
    }
  }
  return before;
}

/** The same, shown and remembered; `items` are pictures that a person labelled by it. */
export function grow(shots, items = []) {
  const names = [...new Set(shots.map(inWords))];
  const joint = shots[0].label === null ? "as" : "of";
  const text = `${shots.length === 1 ? "a picture" : count(shots.length, "picture")} ${joint} ${names.length === 1 ? names[0] : count(names.length, "class")}`;
  return busily(`Learning ${text}`, async () => {
    const before = await teach(shots);
    items.forEach((one, place) => { one.mark = { label: shots[place].label, not: shots[place].not }; });
    remember(`learning ${text}`, () => busily(`Forgetting ${text} again`, async () => {
      for (const one of items) one.mark = null;
      await comeBack(before);
    }));
  });
}
