// The page: teach, ask, see why, check; and everything wired together.

import { askOne, openItem } from "./answer.js";
import * as api from "./api.js";
import { remember, take, undo } from "./changes.js";
import { draft } from "./columns.js";
import { $, bringUp, count, make } from "./dom.js";
import { enough } from "./enough.js";
import { setRule } from "./evidence.js";
import { dropped, takeFiles } from "./files.js";
import { addItems, choose, onOpen, suggest } from "./pictures.js";
import { review, reviewing, stop } from "./review.js";
import { check } from "./shots.js";
import { changed, onChange, state } from "./state.js";
import { beginWith, takeBeside } from "./teach.js";
import { busily, calm, complain, learning } from "./telling.js";

state.drafts = [draft(), draft()];

/** Ask about pictures: one is answered at once, of several each becomes a tile. */
function ask(files) {
  calm();
  const items = addItems(files);
  if (items.length === 1) return askOne(items[0]);
  choose("all");
  requestAnimationFrame(() => { bringUp($("pictures")); $("pictures").focus({ preventScroll: true }); });
  return undefined;
}

const takeAnywhere = (files) => (state.classifier ? ask(files) : takeBeside(files));
const beside = (files) => (state.classifier && files.every(({ file, path }) => path === file.name) ? ask(files) : takeBeside(files));

takeFiles($("question-drop"), [$("question"), $("question-folder")], ask);
takeFiles($("teach"), [$("teach-folder-input")], beside);
takeFiles($("open-model"), [$("open-model")], ([{ file }]) => busily("Opening the model", () => beginWith(() => api.openModel(file))));
addEventListener("dragover", (event) => event.preventDefault()); // a missed drop must not leave the page
addEventListener("drop", async (event) => { event.preventDefault(); const files = await dropped(event.dataTransfer); if (files.length) takeAnywhere(files); });
addEventListener("paste", (event) => { const files = [...event.clipboardData.files].map((file) => ({ file, path: file.name })); if (files.length && state.classifier) ask(files); });
addEventListener("keydown", (event) => {
  if (event.key !== "z" || !(event.ctrlKey || event.metaKey) || event.target.closest("input, textarea")) return;
  event.preventDefault();
  undo();
});

onOpen((one) => { stop(); openItem(one).catch(complain); });
$("undo").addEventListener("click", undo);
$("check").addEventListener("click", check);
$("enough").addEventListener("click", enough);
$("suggest").addEventListener("click", () => busily("Choosing the pictures whose labels help most", suggest));
$("review-doubtful").addEventListener("click", () => review("doubtful"));
$("review-suggested").addEventListener("click", () => review("suggested"));
$("rule").addEventListener("input", () => setRule(Number($("rule").value)));
for (const mark of document.querySelectorAll(".stops span")) mark.addEventListener("click", () => setRule(Number(mark.dataset.rule)));
$("alert").querySelector("button").addEventListener("click", calm);

// ------------------------------------------------------------------------------------------------- beginnings

$("start-over").addEventListener("click", () => {
  const before = state.classifier;
  stop();
  calm();
  state.drafts = [draft(), draft()];
  $("tray").hidden = true;
  take(null);
  offerMine();
  remember("starting over", async () => { state.drafts = []; take(before); });
});

$("fruit").addEventListener("click", () => busily("Loading photographs of fruit", async () => {
  await beginWith(async () => api.learnt(await api.fruit(), learning));
  await showQuestions();
}));

async function showQuestions() {
  const questions = await api.fruitQuestions();
  const fetched = async (picture, answer) => ({ file: await (await fetch(picture)).blob(), path: answer });
  $("questions").replaceChildren(...questions.map(({ picture, answer }) => make("button", { class: "thumb", title: answer, onclick: async () => ask([await fetched(picture, answer)]) },
    make("img", { src: picture, alt: answer, loading: "lazy" }))));
  $("all-questions").onclick = async () => ask(await Promise.all(questions.map(({ picture, answer }) => fetched(picture, answer))));
  $("tray").hidden = false;
}

const goOnWith = (id, text = id) => busily(`Opening ${text}`, () => beginWith(async () => api.learnt(await api.get(id), learning), false));

/** Offer the classifiers that the service keeps. */
async function offerMine() {
  if (!state.lasting) return;
  const found = (await api.mine()).filter((one) => one.state === "ready" && !state.hosted.includes(one.id));
  $("mine").hidden = !found.length;
  $("mine-list").replaceChildren(...found.slice(0, 12).map((one) => {
    const names = one.classes.map(({ label }) => label);
    const text = names.length > 4 ? `${names.slice(0, 3).join(", ")} and ${names.length - 3} more` : names.join(", ");
    return make("li", {}, make("button", { onclick: () => goOnWith(one.id, text) }, text), make("span", { class: "small" }, count(one.classes.reduce((sum, { pictures }) => sum + pictures.length, 0), "picture")));
  }));
}

onChange(() => {
  $("welcome").hidden = $("ask").hidden = Boolean(state.classifier);
  $("ask").hidden = !state.classifier;
  $("save-model").hidden = $("start-over").hidden = !state.classifier;
  if (state.classifier) $("save-model").href = api.modelPath(state.classifier.id);
  document.title = reviewing() ? `${$("review-place").textContent} – dmn4` : "dmn4 – teach with a few pictures, see why";
});

changed();
api.about().then(({ version, backbone, hosted, limits, token, lasting, samples }) => {
  Object.assign(state, { limits, lasting, hosted });
  $("about").textContent = `dmn4 ${version}, ${backbone}`;
  $("fruit").hidden = !samples.includes("fruit") && samples.length > 0;
  if (token) $("about").append(` · ${token} `, make("button", { class: "quiet", onclick: async () => { await api.leave(); location.assign("/"); } }, "Sign out"));
  $("fruit").before(...hosted.map((id) => make("button", { class: "main", onclick: () => goOnWith(id) }, `Ask ${id}`)));
  if (hosted.length === 1 && location.hash.length < 2) goOnWith(hosted[0]);
  return location.hash.length < 2 && offerMine();
}).catch(complain);
if (location.hash.length > 1) {
  api.get(location.hash.slice(1)).then((classifier) => api.learnt(classifier, learning)).then((classifier) => { state.drafts = []; take(classifier); }).catch(() => { history.replaceState(null, "", "#"); offerMine(); });
}
