// The columns of the classes: drafts before learning, what was learnt afterwards.

import { shotPath } from "./api.js";
import { colour, make, takeFiles } from "./dom.js";

let serial = 0;

/** A class whose pictures are still in the browser. */
export const draft = () => ({ key: ++serial, name: "", files: [] });
export const draftName = (one, number) => one.name.trim() || `Class ${number + 1}`;

/** Draw all columns anew; `on` has rename, drop, unpick, discard, another, addTo, forget. */
export function drawColumns(holder, classifier, drafts, on) {
  const known = (classifier?.classes ?? []).map((one, number) => learntColumn(classifier, one, number, on));
  const first = known.length;
  const fresh = drafts.map((one, number) => draftColumn(one, first + number, drafts, classifier, on));
  const another = make("button", { class: "another", onclick: on.another }, make("span", { "aria-hidden": "true" }, "+"), "Another class");
  holder.replaceChildren(...known, ...fresh, make("div", { role: "listitem", class: "column empty" }, another));
}

function learntColumn(classifier, one, number, on) {
  const thumbs = one.pictures.map((picture) => make("img", { src: shotPath(classifier, picture), alt: "", loading: "lazy" }));
  const forget = make("button", { class: "icon", "aria-label": `Forget ${one.label}`, title: "Forget this class", onclick: () => on.forget(one.label) }, "×");
  const head = make("div", { class: "name" }, make("h3", {}, one.label), forget);
  const count = `${one.pictures.length} picture${one.pictures.length === 1 ? "" : "s"}`;
  return column(number, head, thumbs, `More pictures of ${one.label}`, count, (files) => on.addTo(one.label, files));
}

function draftColumn(one, number, drafts, classifier, on) {
  const name = make("input", { value: one.name, placeholder: `Class ${number + 1}`, maxlength: 60, "aria-label": `Name of class ${number + 1}`,
    oninput: (event) => { one.name = event.target.value; on.rename(); } });
  const removable = drafts.length > 2 || classifier;
  const discard = make("button", { class: "icon", "aria-label": `Remove class ${number + 1}`, title: "Remove this class", hidden: !removable, onclick: () => on.discard(one) }, "×");
  const thumbs = one.files.map(({ url }, place) => make("button", { class: "thumb", "aria-label": `Remove picture ${place + 1} of class ${number + 1}`, title: "Remove this picture", onclick: () => on.unpick(one, place) }, make("img", { src: url, alt: "" })));
  const count = one.files.length ? `${one.files.length} picture${one.files.length === 1 ? "" : "s"}` : "";
  return column(number, make("div", { class: "name" }, name, discard), thumbs, `Pictures of class ${number + 1}`, count, (files) => on.drop(one, files));
}

function column(number, head, thumbs, label, count, take) {
  const id = `pick-${number}`;
  const input = make("input", { id, class: "file", type: "file", accept: "image/*", multiple: true, "aria-label": label });
  const pick = make("label", { class: thumbs.length ? "pick" : "pick drop", for: id }, thumbs.length ? "+" : make("span", {}, "Drop pictures, or ", make("u", {}, "choose")));
  const box = make("div", { role: "listitem", class: "column", "--colour": colour(number) }, head,
    make("div", { class: thumbs.length ? "thumbs" : "thumbs none" }, ...thumbs, input, pick), make("p", { class: "small" }, count));
  takeFiles(box, input, take);
  return box;
}
