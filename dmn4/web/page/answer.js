// The answer for one picture: the verdict, its probabilities, why; and what a person says to it.

import * as api from "./api.js";
import { grow } from "./changes.js";
import { $, bar, bringUp, colour, make } from "./dom.js";
import { clearEvidence, showEvidence } from "./evidence.js";
import { lookAt } from "./pictures.js";
import { thumbnail } from "./shrink.js";
import { changed, inWords, labels, onChange, state, version } from "./state.js";
import { busily, complain } from "./telling.js";

const NEW = "\u0000new";
const NOT = "\u0000not";
const BARS = 5; // classes whose probability is shown at first

state.open = null; // the picture whose answer is on the page
let explained = ""; // the version that its evidence is of
let allBars = false;
let leave = null; // stops the request for evidence that nobody waits for any more

/** Ask about one new picture: if that fails, the answer before it stays. */
export function askOne(one) {
  one.asking = true;
  return busily("Looking at the picture", async () => {
    try {
      const url = await thumbnail(one.picture);
      const explanation = await api.explain(state.classifier.id, one.picture);
      Object.assign(one, { thumb: url, said: explanation.prediction, of: version() });
      show(one);
      explain(explanation);
      bringUp($("answer"));
      $("answer").focus({ preventScroll: true });
    } catch (error) {
      state.items = state.items.filter((other) => other !== one);
      throw error;
    } finally {
      one.asking = false;
    }
  });
}

/** Show the answer for a picture, at once if it was looked at; then the evidence follows, otherwise they come together. */
export async function openItem(one, focus = true) {
  let explanation = null;
  if (!one.said && !one.error) await lookAt(one, async (id, picture) => { explanation = await api.explain(id, picture); return explanation.prediction; });
  if (one.error) throw new Error(`${one.name}: ${one.error}`);
  show(one);
  clearEvidence();
  if (focus) {
    bringUp($("answer"));
    $("answer").focus({ preventScroll: true });
  }
  if (explanation) explain(explanation);
  else await explainOpen();
}

/** Fetch the evidence for the open picture; what was meanwhile learnt may change its verdict. */
async function explainOpen() {
  const [one, of] = [state.open, version()];
  try {
    leave?.abort();
    leave = new AbortController();
    const explanation = await api.explain(state.classifier.id, one.picture, leave.signal);
    if (one !== state.open || of !== version()) return;
    const other = explanation.prediction.line !== one.said.line;
    Object.assign(one, { said: explanation.prediction, of });
    if (other) drawVerdict(one.said);
    explain(explanation);
    changed();
  } catch (error) {
    if (one === state.open && error.name !== "AbortError") complain(error);
  }
}

function show(one) {
  if (state.open?.full) URL.revokeObjectURL(state.open.full);
  if (state.open) state.open.full = null;
  state.open = one;
  one.full = URL.createObjectURL(one.picture);
  allBars = false;
  explained = "";
  $("answer").hidden = false;
  $("asked").src = one.full;
  $("asked").alt = `The picture you asked about, ${one.name}`;
  $("thanks").textContent = "";
  drawVerdict(one.said);
  changed();
}

function explain(explanation) {
  explained = version();
  showEvidence(state.classifier, explanation, state.open.full, Number($("rule").value));
}

export function close() {
  if (state.open?.full) URL.revokeObjectURL(state.open.full);
  state.open = null;
  $("answer").hidden = true;
}

/** The classes, the most probable first. */
export const ranked = (said) => Object.keys(said.probabilities).sort((one, other) => said.probabilities[other] - said.probabilities[one]);

/** The classes of the open picture that it could be instead: the runner-up is preset. */
function drawVerdict(said) {
  const { label, none_of_these: none, words, chance, others } = said;
  $("verdict").textContent = words;
  $("confidence").textContent = others ? `${chance}, ${others}` : chance;
  $("answer").classList.toggle("none", none);
  drawBars(said);
  $("accept-text").textContent = none ? "Right, learn that too" : "Yes, learn it too";
  const rest = ranked(said).filter((name) => none || name !== label);
  $("truth").replaceChildren(...rest.map((name) => make("option", { value: name }, name)), make("option", { value: NEW }, "something new …"),
    ...(none ? [] : [make("option", { value: NOT }, `something else, not ${label}`)]));
  $("new-truth").hidden = $("truth").value !== NEW;
}

function drawBars(said) {
  const names = ranked(said);
  const shown = allBars ? names : names.slice(0, BARS);
  $("probabilities").replaceChildren(...shown.map((name) => bar(name, said.probabilities[name], said.percents[name], colour(labels().indexOf(name)), !said.none_of_these && name === said.label)));
  $("all-bars").hidden = names.length <= BARS;
  $("all-bars").textContent = allBars ? `Show the first ${BARS}` : `Show all ${names.length} classes`;
  $("all-bars").setAttribute("aria-expanded", String(allBars));
}

/** What the person chose in "No, it is"; nothing while a new name is missing. */
export function truth() {
  const name = $("truth").value === NEW ? $("new-truth").value.trim() : $("truth").value;
  if (!name) $("new-truth").focus();
  return name;
}

/** A person says what the open picture is, and it is learnt; null: none of these, or only that it is `not` of a class. */
export let settle = async (label, not) => {
  const one = state.open;
  if (!(await grow([{ label, not, picture: one.picture }], [one]))) return;
  $("thanks").textContent = `${label === null ? `Learnt: ${inWords({ label, not })}` : `Added to ${label}`}. This is what it says now.`;
};

/** A person says that the open picture is not what was said of it, and no more. */
export const settleNot = () => settle(null, state.open.said.none_of_these ? undefined : state.open.said.label);

/** Have somebody else hear what a person says; null: nobody. */
const usual = settle;
export const settleBy = (work) => { settle = work ?? usual; };

$("accept").addEventListener("click", () => settle(state.open.said.none_of_these ? null : state.open.said.label));
$("none").addEventListener("click", () => settle(null));
$("reject").addEventListener("click", () => {
  if ($("truth").value === NOT) settleNot();
  else if (truth()) settle(truth());
});
$("truth").addEventListener("change", () => { $("new-truth").hidden = $("truth").value !== NEW; if (!$("new-truth").hidden) $("new-truth").focus(); });
$("all-bars").addEventListener("click", () => { allBars = !allBars; drawBars(state.open.said); });

let asked = "";
onChange(() => {
  if (!state.classifier) close();
  if (!state.open || explained === version() || asked === version() || state.busy || $("answer").classList.contains("reviewing")) return;
  asked = version(); // the classifier changed: say anew
  explainOpen();
});
