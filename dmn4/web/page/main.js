// The page: teach, ask, see why, correct.

import * as api from "./api.js";
import { draft, draftName, drawColumns } from "./columns.js";
import { $, make, percent, takeFiles } from "./dom.js";
import { bar, drawLines, setRule, showEvidence } from "./evidence.js";

const state = { classifier: null, drafts: [draft(), draft()], question: null, prediction: null, busy: false };
const NEW = "\u0000new";

// ------------------------------------------------------------------------------------------------------- telling

function complain(error) {
  $("alert").hidden = false;
  $("alert").querySelector("p").textContent = error.message;
}

const calm = () => { $("alert").hidden = true; };

let queue = Promise.resolve();

/** Run a piece of work once what came before is done: progress is shown, an error becomes one line. */
const busily = (text, work) => (queue = queue.then(() => run(text, work)));

async function run(text, work) {
  calm();
  state.busy = true;
  document.body.classList.add("busy");
  draw();
  progress(text);
  try {
    await work();
  } catch (error) {
    complain(error);
  } finally {
    state.busy = false;
    document.body.classList.remove("busy");
    $("progress").hidden = true;
    draw();
  }
}

function progress(text, done, total) {
  $("status").textContent = text;
  $("progress").hidden = false;
  if (total && done) Object.assign($("progress"), { max: total, value: done });
  else $("progress").removeAttribute("value");
}

const learning = ({ done, total }) => progress(done ? `Looking at picture ${Math.min(done + 1, total)} of ${total}` : "Starting to learn", done, total);

// ------------------------------------------------------------------------------------------------------- teaching

const ready = () => state.drafts.filter((one) => one.files.length);

function draw() {
  drawColumns($("columns"), state.classifier, state.drafts, columnEvents);
  const names = state.drafts.map(draftName);
  $("learn").hidden = Boolean(state.classifier);
  $("learn").disabled = ready().length < 2 || new Set(names).size < names.length || state.busy;
  $("welcome").hidden = Boolean(state.classifier);
  $("fruit").disabled = state.busy;
  if (!state.busy) $("status").textContent = advice(names);
  $("ask").hidden = !state.classifier;
  $("save-model").hidden = $("start-over").hidden = !state.classifier;
  if (state.classifier) $("save-model").href = api.modelPath(state.classifier.id);
}

function advice(names) {
  if (state.classifier) return `${state.classifier.classes.length} classes learnt. Drop more pictures into a column at any time.`;
  if (new Set(names).size < names.length) return "Two classes have the same name.";
  const missing = 2 - ready().length;
  return missing > 0 ? `Pictures of ${missing === 2 ? "two classes" : "one more class"} are needed.` : "";
}

const columnEvents = {
  rename: () => { $("learn").disabled = ready().length < 2; $("status").textContent = advice(state.drafts.map(draftName)); },
  another: () => { state.drafts.push(draft()); draw(); $("columns").querySelector(".column:nth-last-child(2) input")?.focus(); },
  discard: (one) => { state.drafts = state.drafts.filter((other) => other !== one); draw(); },
  unpick: (one, place) => { URL.revokeObjectURL(one.files.splice(place, 1)[0].url); draw(); },
  drop: (one, files) => {
    if (state.classifier) return grow(draftName(one, state.classifier.classes.length + state.drafts.indexOf(one)), files, one);
    one.files.push(...files.map((file) => ({ file, url: URL.createObjectURL(file) })));
    draw();
  },
  addTo: (label, files) => grow(label, files),
  forget: (label) => busily(`Forgetting ${label}`, async () => { take(await api.forget(state.classifier.id, label)); await askAgain(); }),
};

function grow(label, pictures, one) {
  return busily(`Learning ${pictures.length === 1 ? "a picture" : `${pictures.length} pictures`} of ${label}`, async () => {
    take(await api.add(state.classifier.id, pictures.map((picture) => ({ label, picture }))));
    state.drafts = state.drafts.filter((other) => other !== one);
    await askAgain();
  });
}

function learn() {
  const shots = state.drafts.flatMap((one, number) => one.files.map(({ file }) => ({ label: draftName(one, number), picture: file })));
  return busily("Sending the pictures", async () => { begin(await api.learnt(await api.create(shots), learning)); });
}

function begin(classifier) {
  take(classifier);
  for (const { url } of state.drafts.flatMap((one) => one.files)) URL.revokeObjectURL(url);
  state.drafts = [];
}

function take(classifier) {
  state.classifier = classifier;
  history.replaceState(null, "", `#${classifier.id}`);
}

async function startOver() {
  const { id } = state.classifier;
  Object.assign(state, { classifier: null, drafts: [draft(), draft()], question: null, prediction: null });
  $("answer").hidden = $("tray").hidden = true;
  history.replaceState(null, "", "#");
  calm();
  draw();
  await api.remove(id).catch(() => {});
}

// --------------------------------------------------------------------------------------------------------- sample

function loadFruit() {
  return busily("Loading photographs of fruit", async () => {
    begin(await api.learnt(await api.fruit(), learning));
    await showQuestions();
  });
}

async function showQuestions() {
  const questions = await api.fruitQuestions();
  $("questions").replaceChildren(...questions.map(({ picture, answer }) => {
    const img = make("img", { src: picture, alt: answer, loading: "lazy" });
    return make("button", { class: "thumb", title: answer, onclick: async () => ask(await (await fetch(picture)).blob()) }, img);
  }));
  $("tray").hidden = false;
}

// --------------------------------------------------------------------------------------------------------- asking

function ask(picture) {
  return busily("Looking at the picture", async () => {
    await answer({ picture, url: URL.createObjectURL(picture) });
    $("answer").scrollIntoView({ behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth", block: "start" });
    $("answer").focus({ preventScroll: true });
  });
}

const askAgain = async () => { if (state.question && !$("answer").hidden) await answer(state.question); };

async function answer(question) {
  const { id } = state.classifier;
  const { picture, url } = question;
  const explanation = await api.explain(id, picture);
  const { prediction } = explanation;
  if (state.question && state.question !== question) URL.revokeObjectURL(state.question.url);
  Object.assign(state, { question, prediction }); // a question that failed leaves the one before it on the page
  $("answer").hidden = false;
  $("asked").src = url;
  $("thanks").textContent = "";
  drawVerdict(prediction);
  showEvidence(state.classifier, explanation, url, Number($("rule").value));
}

function drawVerdict({ label, none_of_these: none, probability, known, probabilities }) {
  $("verdict").textContent = none ? "None of these" : label;
  $("said-small").textContent = none ? "It looks like" : "It is";
  $("confidence").textContent = none
    ? `Nearest is ${label}, but it is ${percent(1 - known)} likely to be something else.`
    : `${percent(probability)} sure among these classes${known === null ? "" : `; ${percent(known)} that it is one of them at all`}.`;
  $("answer").classList.toggle("none", none);
  const order = state.classifier.classes.map((one, number) => [one.label, number]);
  $("probabilities").replaceChildren(...order.map(([name, number]) => bar(name, probabilities[name], percent(probabilities[name]), number, !none && name === label)));
  $("accept").textContent = none ? "Right, leave it out" : "Yes, learn it too";
  const others = order.map(([name]) => name).filter((name) => none || name !== label);
  $("truth").replaceChildren(...others.map((name) => make("option", { value: name }, name)), make("option", { value: NEW }, "something new …"));
  $("new-truth").hidden = $("truth").value !== NEW;
}

async function accept() {
  const { label, none_of_these: none } = state.prediction;
  if (none) { $("thanks").textContent = "Nothing was added."; return; }
  await teachQuestion(label);
}

async function reject() {
  const label = $("truth").value === NEW ? $("new-truth").value.trim() : $("truth").value;
  if (!label) { $("new-truth").focus(); return; }
  await teachQuestion(label);
}

async function teachQuestion(label) {
  await grow(label, [state.question.picture]);
  if ($("alert").hidden) $("thanks").textContent = `Added to ${label}. This is what it says now.`;
}

// --------------------------------------------------------------------------------------------------------- wiring

takeFiles($("question-drop"), $("question"), ([file]) => ask(file));
takeFiles($("open-model"), $("open-model"), ([file]) => busily("Opening the model", async () => begin(await api.openModel(file))));
for (const kind of ["dragover", "drop"]) addEventListener(kind, (event) => event.preventDefault()); // a missed drop must not leave the page
addEventListener("paste", (event) => { const [file] = event.clipboardData.files; if (file && state.classifier) ask(file); });
$("learn").addEventListener("click", learn);
$("fruit").addEventListener("click", loadFruit);
$("start-over").addEventListener("click", startOver);
$("accept").addEventListener("click", accept);
$("reject").addEventListener("click", reject);
$("truth").addEventListener("change", () => { $("new-truth").hidden = $("truth").value !== NEW; if (!$("new-truth").hidden) $("new-truth").focus(); });
$("rule").addEventListener("input", () => setRule(Number($("rule").value)));
for (const stop of document.querySelectorAll(".stops span")) stop.addEventListener("click", () => setRule(Number(stop.dataset.rule)));
$("alert").querySelector("button").addEventListener("click", calm);
new ResizeObserver(drawLines).observe($("stage"));
document.addEventListener("load", (event) => { if (event.target.closest?.("#stage")) drawLines(); }, true);

draw();
const openHosted = (id) => busily(`Opening ${id}`, async () => begin(await api.learnt(await api.get(id), learning)));

api.about().then(({ version, backbone, hosted }) => {
  $("about").textContent = `dmn4 ${version}, ${backbone}`;
  $("fruit").before(...hosted.map((id) => make("button", { class: "main", onclick: () => openHosted(id) }, `Ask ${id}`)));
  if (hosted.length === 1 && location.hash.length < 2) openHosted(hosted[0]);
}, complain);
if (location.hash.length > 1) {
  const id = location.hash.slice(1);
  api.get(id).then((classifier) => api.learnt(classifier, learning)).then((classifier) => { begin(classifier); draw(); }).catch(() => history.replaceState(null, "", "#"));
}
