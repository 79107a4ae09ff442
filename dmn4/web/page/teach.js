// Teaching: columns of drafts, whole folders of classes, learning; and the columns of what was learnt.

import * as api from "./api.js";
import { change, grow, remember, take } from "./changes.js";
import { draft, draftFile, draftName, drawColumns, isMany } from "./columns.js";
import { $, count } from "./dom.js";
import { byFolder } from "./files.js";
import { look } from "./shots.js";
import { changed, labels, onChange, state, version } from "./state.js";
import { busily, learning, progress } from "./telling.js";

const ready = () => state.drafts.filter((one) => one.files.length);
const names = () => state.drafts.map(draftName);
const twice = () => names().find((name, place) => names().indexOf(name) !== place || labels().includes(name));

let drawn = "";

onChange(() => {
  const wanted = $("find-class").value.trim().toLowerCase();
  const key = JSON.stringify([version(), wanted, state.drafts.map((one) => [one.key, one.files.map(({ key }) => key)]), state.suspects, state.ruledOut]);
  if (key !== drawn) drawColumns($("columns"), (label) => label.toLowerCase().includes(wanted), events);
  drawn = key;
  $("find").hidden = !isMany();
  $("find-count").textContent = wanted ? count($("columns").querySelectorAll(".column:not(.empty)").length, "class") : "";
  $("learn").hidden = Boolean(state.classifier);
  $("teach-folder").hidden = $("teach-folder-input").hidden = Boolean(state.classifier) || !("webkitdirectory" in HTMLInputElement.prototype);
  $("check").hidden = $("enough").hidden = !state.classifier;
  $("check").disabled = $("enough").disabled = $("fruit").disabled = state.busy;
  drawAdvice();
});

function drawAdvice() {
  $("learn").disabled = ready().length < 2 || Boolean(twice()) || state.busy;
  if (!state.busy) $("status").textContent = advice();
}

function advice() {
  if (state.classifier) return `${count(state.classifier.classes.length, "class")} learnt. Drop more pictures into a column at any time.`;
  if (twice()) return "Two classes have the same name.";
  const missing = 2 - ready().length;
  if (missing > 0) return `Pictures of ${missing === 2 ? "two classes" : "one more class"} are needed.`;
  return isMany() ? `${count(ready().length, "class")}, ${count(ready().reduce((sum, one) => sum + one.files.length, 0), "picture")}.` : "";
}

const events = {
  rename: drawAdvice,
  another: () => { state.drafts.push(draft()); changed(); requestAnimationFrame(() => $("columns").querySelector(".column:nth-last-child(2) input")?.focus()); },
  discard: (one) => putBack(`removing ${draftName(one, state.drafts.indexOf(one))}`, () => { state.drafts = state.drafts.filter((other) => other !== one); }),
  unpick: (one, place) => putBack("removing a picture", () => { one.files = one.files.filter((_, number) => number !== place); }),
  drop: (files, where) => (byFolder(files).size > 1 ? takeFolders(files) : takeInto(files, where)),
  forget: (label) => busily(`Forgetting ${label}`, () => change(`forgetting ${label}`, ({ id }) => api.forget(id, label))),
  look,
  takeBack: (number) => busily("Taking a picture back", () => change("taking a picture back", (classifier) => api.takeBack(classifier, number), true)),
};

/** Change the drafts; `Undo` restores them. */
function putBack(text, work) {
  const before = state.drafts.map((one) => ({ ...one }));
  work();
  remember(text, async () => { state.drafts = before; changed(); });
}

const asShots = (label, files) => files.map(({ file }) => ({ label, picture: file }));

/** Files dropped into a column: of a class that was learnt (its label), or of a draft. */
function takeInto(files, where) {
  if (typeof where === "string") return grow(asShots(where, files));
  const [folder] = byFolder(files).keys();
  if (folder && !where.name) where.name = folder;
  if (!state.classifier) return putBack(`adding ${count(files.length, "picture")}`, () => { where.files = [...where.files, ...files.map(draftFile)]; });
  state.drafts = state.drafts.filter((one) => one !== where);
  return grow(asShots(draftName(where, state.classifier.classes.length), files));
}

/** A folder of class folders: each becomes a column, or more pictures of the class of that name. */
export function takeFolders(files) {
  const folders = [...byFolder(files)].map(([name, some]) => [name || "unnamed", some]);
  if (state.classifier) return grow(folders.flatMap(([name, some]) => asShots(name, some)));
  return putBack(`adding ${count(folders.length, "class")}`, () => {
    const drafts = state.drafts.filter((one) => one.name || one.files.length).map((one) => ({ ...one }));
    for (const [name, some] of folders) {
      let one = drafts.find((other) => other.name.trim() === name);
      if (!one) drafts.push(one = draft(name));
      one.files = [...one.files, ...some.map(draftFile)];
    }
    state.drafts = drafts.length > 1 ? drafts : [...drafts, draft()];
  });
}

function learn() {
  const shots = state.drafts.flatMap((one, number) => one.files.map(({ file }) => ({ label: draftName(one, number), picture: file })));
  return busily("Sending the pictures", () => beginWith(async () => {
    let classifier = null;
    let sent = 0;
    for await (const portion of api.portions(shots, state.limits)) {
      if (classifier) progress(`Learning ${count(shots.length, "picture")}`, sent, shots.length);
      classifier = classifier ? await api.add(classifier.id, portion) : await api.learnt(await api.create(portion), learning);
      sent += portion.length;
    }
    return classifier;
  }));
}

/** Begin with the classifier that `work` makes; `Undo` returns to what was on the page. */
export async function beginWith(work, made = true) {
  const before = { classifier: state.classifier, drafts: state.drafts };
  const classifier = await work();
  state.drafts = [];
  take(classifier);
  remember("beginning with these classes", () => busily("Going back", async () => {
    const { id } = state.classifier;
    state.drafts = before.drafts;
    take(before.classifier);
    if (made) await api.remove(id).catch(() => {});
  }));
}

$("learn").addEventListener("click", learn);
$("find-class").addEventListener("input", changed);

/** Files dropped beside the columns: class folders become columns, loose pictures the next one. */
export function takeBeside(files) {
  const folders = byFolder(files);
  if (folders.size > 1 || state.classifier) return takeFolders(files);
  const [folder] = folders.keys();
  return folder ? takeFolders(files) : takeInto(files, draftFor());
}

function draftFor() {
  const empty = state.drafts.find((one) => !one.files.length);
  if (!empty) state.drafts = [...state.drafts, draft()];
  return empty ?? state.drafts.at(-1);
}
