// The columns of the classes: drafts before learning, what was learnt afterwards. Many classes become a list.

import { ruledOutPath, shotPath } from "./api.js";
import { colour, count, make, roam } from "./dom.js";
import { takeFiles } from "./files.js";
import { thumbnail } from "./shrink.js";
import { NONE, state } from "./state.js";

const MANY = 8; // classes, beyond which each is one line
const SHOWN = 20; // pictures of a column
const FEW = 5; // pictures of a line

let serial = 0;

/** A class whose pictures are still in the browser. */
export const draft = (name = "", files = []) => ({ key: ++serial, name, files });
export const draftName = (one, number) => one.name.trim() || `Class ${number + 1}`;
export const draftFile = ({ file }) => ({ key: ++serial, file, url: null });

export const isMany = () => (state.classifier?.classes.length ?? 0) + state.drafts.length > MANY;

/** Draw the columns whose class `wanted` lets through; `on` has rename, drop, unpick, discard, another, forget, look, takeBack. */
export function drawColumns(holder, wanted, on) {
  const { classifier, drafts } = state;
  const focused = holder.contains(document.activeElement) && document.activeElement.getAttribute("aria-label");
  const many = isMany();
  const known = (classifier?.classes ?? []).map((one, number) => wanted(one.label) && learntColumn(classifier, one, number, many, on));
  const fresh = drafts.map((one, number) => wanted(one.name) && draftColumn(one, known.length + number, many, on));
  const another = make("button", { class: "another", onclick: on.another }, make("span", { "aria-hidden": "true" }, "+"), "Another class");
  holder.classList.toggle("many", many);
  holder.replaceChildren(...known.filter(Boolean), ...fresh.filter(Boolean), ...(state.ruledOut.length ? [ruledOutColumn(classifier, on)] : []), make("div", { role: "listitem", class: "column empty" }, another));
  if (focused) holder.querySelector(`[aria-label="${CSS.escape(focused)}"]`)?.focus();
}

function learntColumn(classifier, one, number, many, on) {
  const suspects = new Map(state.suspects.map((suspect) => [suspect.picture, suspect]));
  const first = [...one.pictures].sort((a, b) => suspects.has(b) - suspects.has(a)).slice(0, many ? FEW : SHOWN); // suspects are always seen
  const thumbs = first.map((picture, place) => {
    const suspect = suspects.get(picture);
    const says = `${suspect ? `Looks like ${suspect.looks_like}, ${suspect.percent}: p` : "P"}icture ${one.pictures.indexOf(picture) + 1} of ${one.label}`;
    return make("button", { class: suspect ? "thumb suspect" : "thumb", tabindex: place ? -1 : 0, "aria-label": says, title: suspect ? `Looks like ${suspect.looks_like} (${suspect.percent})` : "Change or remove", onclick: () => on.look(picture, one.label) },
      make("img", { src: shotPath(classifier, picture), alt: "", loading: "lazy" }));
  });
  const forget = make("button", { class: "icon", "aria-label": `Forget ${one.label}`, title: "Forget this class", onclick: () => on.forget(one.label) }, "×");
  const head = make("div", { class: "name" }, make("h3", { title: one.label }, one.label), forget);
  return column(number, head, thumbs, `More pictures of ${one.label}`, one.pictures.length, (files) => on.drop(files, one.label));
}

/** The pictures that were taught as what they are not; pressing one takes it back. */
function ruledOutColumn(classifier, on) {
  const says = (name) => (name === NONE ? NONE : `not ${name}`);
  const thumbs = state.ruledOut.map((name, number) => make("button", { class: "thumb", tabindex: number ? -1 : 0, "aria-label": `Take back picture ${number + 1}: ${says(name)}`, title: `${says(name)}: take it back`, onclick: () => on.takeBack(number) },
    make("img", { src: ruledOutPath(classifier, number), alt: "", loading: "lazy" })));
  const holder = make("div", { class: "thumbs" }, ...thumbs.slice(-SHOWN));
  const others = [...new Set(state.ruledOut)].map(says).join(", ");
  roam(holder, ".thumb");
  return make("div", { role: "listitem", class: "column ruled-out", "--colour": "var(--line)" }, make("div", { class: "name" }, make("h3", { title: others }, "Ruled out")), holder, make("p", { class: "small" }, `${count(state.ruledOut.length, "picture")}: ${others}`));
}

function draftColumn(one, number, many, on) {
  const name = make("input", { value: one.name, placeholder: `Class ${number + 1}`, maxlength: 60, "aria-label": `Name of class ${number + 1}`,
    oninput: (event) => { one.name = event.target.value; on.rename(); } });
  const removable = state.drafts.length > 2 || state.classifier;
  const discard = make("button", { class: "icon", "aria-label": `Remove class ${number + 1}`, title: "Remove this class", hidden: !removable, onclick: () => on.discard(one) }, "×");
  const thumbs = one.files.slice(0, many ? FEW : SHOWN).map((file, place) => {
    const img = make("img", { alt: "" });
    file.url ??= thumbnail(file.file);
    file.url.then((url) => { img.src = url; });
    return make("button", { class: "thumb", tabindex: place ? -1 : 0, "aria-label": `Remove picture ${place + 1} of class ${number + 1}`, title: "Remove this picture", onclick: () => on.unpick(one, place) }, img);
  });
  return column(number, make("div", { class: "name" }, name, discard), thumbs, `Pictures of class ${number + 1}`, one.files.length, (files) => on.drop(files, one));
}

function column(number, head, thumbs, label, pictures, take) {
  const id = `pick-${number}`;
  const input = make("input", { id, class: "file", type: "file", accept: "image/*", multiple: true, "aria-label": label });
  const pick = make("label", { class: pictures ? "pick" : "pick drop", for: id }, pictures ? "+" : make("span", {}, "Drop pictures, or ", make("u", {}, "choose")));
  const more = pictures > thumbs.length ? `, ${thumbs.length} shown` : "";
  const holder = make("div", { class: pictures ? "thumbs" : "thumbs none" }, ...thumbs, input, pick);
  const box = make("div", { role: "listitem", class: "column", "--colour": colour(number) }, head, holder, make("p", { class: "small" }, pictures ? count(pictures, "picture") + more : ""));
  roam(holder, ".thumb");
  takeFiles(box, [input], take);
  return box;
}
