// A picture that was learnt from: another label, or away with it. Labels that look wrong, one after the other.

import * as api from "./api.js";
import { change } from "./changes.js";
import { make } from "./dom.js";
import { changed, labels, state, version } from "./state.js";
import { busily, quietly, say } from "./telling.js";

const right = new Set(); // pictures, by version and number, whose label a person found right

/** Find the labels that look wrong and go through them. */
export function check() {
  return busily("Comparing the labels with each other", async () => {
    await findSuspects();
    if (state.suspects.length) lookAtSuspect(state.suspects[0]);
    else say("No label looks wrong.");
  });
}

async function findSuspects() {
  const of = version();
  const found = await api.suspects(state.classifier.id);
  if (of !== version()) return;
  state.suspects = found.filter(({ picture }) => !right.has(`${of} ${picture}`));
  changed();
}

const lookAtSuspect = (suspect) => look(suspect.picture, suspect.label);

/** Show a picture that was learnt from, with what can be done about it. */
export function look(picture, label) {
  const { classifier } = state;
  const suspect = state.suspects.find((one) => one.picture === picture);
  const number = classifier.classes.find((one) => one.label === label).pictures.indexOf(picture) + 1;
  const close = make("button", { class: "icon", "aria-label": "Close", onclick: () => dialog.close() }, "×");
  const more = state.suspects.length - 1;
  const title = suspect ? `This label may be wrong${more ? `, and ${more} more` : ""}` : `Picture ${number} of ${label}`;
  const shown = [[picture, `Labelled ${label}`], ...(suspect ? [[suspect.nearest_there, `Most like it: ${suspect.looks_like}`], [suspect.nearest_here, `Most like it: ${label}`]] : [])];
  const figures = shown.map(([one, text]) => make("figure", {}, make("img", { src: api.shotPath(classifier, one), alt: "" }), make("figcaption", {}, text)));
  const names = labels().filter((name) => name !== label);
  const choice = make("select", { id: "other-label" }, ...names.map((name) => make("option", { value: name }, name)));
  const does = (work) => () => { dialog.close(); work(); };
  const move = (name) => does(() => act(`calling it ${name}`, () => api.relabel(classifier, picture, name), true));
  const buttons = suspect ? [
    make("button", { class: "main", onclick: move(suspect.looks_like) }, `It is ${suspect.looks_like}`),
    make("button", { onclick: does(() => keep(suspect)) }, `${label} is right`)] : [];
  const dialog = make("dialog", { class: "shot", "aria-labelledby": "shot-title" },
    make("div", { class: "name" }, make("h2", { id: "shot-title" }, title), close),
    make("div", { class: "compared" }, ...figures),
    suspect ? make("p", {}, "The other pictures would call it ", make("b", {}, suspect.looks_like), ` (${suspect.percent}).`) : "",
    make("div", { class: "actions" }, ...buttons,
      make("span", { class: "correct" }, make("label", { for: "other-label" }, "It is"), choice, make("button", { onclick: () => move(choice.value)() }, "Move it")),
      make("button", { class: "quiet warn", onclick: does(() => act("removing a picture", () => api.removeShot(classifier, picture))) }, "Remove it")));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

/** Change one picture; if labels are being checked, go on with the next. */
function act(text, work, sameNumbers = false) {
  const checking = state.suspects.length > 0;
  return busily(`${text[0].toUpperCase()}${text.slice(1)}`, async () => {
    await change(text, work, sameNumbers);
    if (checking) await goOn();
  });
}

function keep(suspect) {
  right.add(`${version()} ${suspect.picture}`);
  state.suspects = state.suspects.filter((one) => one !== suspect);
  changed();
  return quietly(async () => { if (state.suspects.length) lookAtSuspect(state.suspects[0]); else say("All labels are checked."); });
}

async function goOn() {
  await findSuspects();
  if (state.suspects.length) lookAtSuspect(state.suspects[0]);
  else say("No other label looks wrong.");
}
