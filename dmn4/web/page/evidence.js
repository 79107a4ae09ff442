// Why: the patches that count, lines to their partners, sums of votes; under DN4, MN4 or DMN4.

import { shotPath } from "./api.js";
import { $, bar, colour, make, makeSvg } from "./dom.js";

export const RULES = ["dn4", "mn4", "dmn4"];
const WORDS = {
  dn4: "DN4: every patch votes for the class of its nearest neighbour, background as loudly as the rest.",
  mn4: "MN4: a patch votes only if its nearest neighbour, looking back, chooses it too.",
  dmn4: "DMN4: of the patches that chose the same neighbour, the one that tells the classes apart best votes.",
};
const DRAWN = 40; // lines at a time: more would hide the pictures
const MATTER = 3; // classes shown at first: the verdict and its nearest rivals
const PARTNERS = 5; // pictures of a class

let shown = null; // {classifier, explanation, url, rule, patch, all, colours}

export function showEvidence(classifier, explanation, url, rule) {
  const names = classifier.classes.map((one) => one.label);
  const colours = explanation.classes.map((label) => colour(names.indexOf(label)));
  shown = { classifier, explanation, url, rule, patch: null, all: false, colours };
  $("query-picture").src = url;
  $("query-picture").alt = "The picture you asked about, with the patches that count";
  $("why").classList.remove("waiting");
  $("all-classes").hidden = explanation.classes.length <= MATTER;
  drawClasses();
}

/** Nothing to show until the evidence for another picture comes. */
export const clearEvidence = () => $("why").classList.add("waiting");

function drawClasses() {
  const { explanation, all, rule } = shown;
  $("all-classes").textContent = all ? `Show the ${MATTER} classes that matter` : `Show all ${explanation.classes.length} classes`;
  $("all-classes").setAttribute("aria-expanded", String(all));
  drawPartners();
  setRule(rule);
}

/** Places of the classes on the page, the largest sum first. */
function order(scores) {
  const places = scores.map((_, number) => number).sort((one, other) => scores[other] - scores[one]);
  return shown.all ? places : places.slice(0, MATTER);
}

export function setRule(rule) {
  if (!shown) return;
  shown.rule = rule;
  shown.patch = null;
  const { explanation } = shown;
  const name = RULES[rule];
  const found = explanation.rules[name];
  $("rule").value = rule;
  $("rule").setAttribute("aria-valuetext", `${name.toUpperCase()}: ${found.kept.length} of ${explanation.descriptors.length} patches count`);
  $("rule-text").textContent = WORDS[name];
  for (const stop of document.querySelectorAll(".stops span")) stop.classList.toggle("on", Number(stop.dataset.rule) === rule);
  $("why-text").replaceChildren(make("b", {}, `${found.kept.length} of ${explanation.descriptors.length}`),
    ` patches count, and they say ${found.verdict}.`, name !== "dn4" && explanation.dn4_verdict !== found.verdict ? ` All patches together would say ${explanation.dn4_verdict}.` : "");
  drawSums(found);
  drawTable(found);
  drawPatches(found);
  drawLines();
  tellPatch();
}

/** The labelled pictures of the classes that matter, those that most patches chose first. */
function drawPartners() {
  const { classifier, explanation, colours } = shown;
  const chosen = new Map();
  for (const { kept, partner } of explanation.descriptors) chosen.set(partner.image, (chosen.get(partner.image) ?? 0) + (kept ? 1000 : 1));
  const rows = order(explanation.scores).map((number) => {
    const label = explanation.classes[number];
    const known = [...classifier.classes.find((one) => one.label === label)?.pictures ?? []].sort((one, other) => (chosen.get(other) ?? 0) - (chosen.get(one) ?? 0));
    const pictures = known.slice(0, PARTNERS).map((picture) => make("div", { class: chosen.has(picture) ? "frame" : "frame unused", "data-picture": picture },
      make("img", { src: shotPath(classifier, picture), alt: `A picture of ${label}` })));
    const rest = known.length - pictures.length;
    return make("div", { class: "row", "--colour": colours[number] }, make("h3", {}, label, ...(rest ? [make("small", {}, ` and ${rest} more`)] : [])), make("div", { class: "pictures" }, ...pictures));
  });
  $("partners").replaceChildren(...rows);
}

function drawPatches(found) {
  const { explanation } = shown;
  const kept = new Set(found.kept);
  const svg = makeSvg("svg", { class: "patches", viewBox: "0 0 1 1", preserveAspectRatio: "none", tabindex: 0, role: "group",
    "aria-label": "Patches of the picture; move with the arrow keys", "aria-describedby": "patch-text" });
  svg.append(...inColour(found.kept.map((place) => explanation.descriptors[place].box)));
  explanation.descriptors.forEach((one, place) => svg.append(patch(one.box, {
    class: kept.has(place) ? "kept" : "dropped", "data-place": place, "--colour": shown.colours[one.partner.class] })));
  svg.addEventListener("pointermove", (event) => point(event.target.dataset?.place));
  svg.addEventListener("pointerleave", () => point(undefined));
  svg.addEventListener("keydown", move);
  svg.addEventListener("blur", () => point(undefined));
  const frame = document.querySelector("#query .frame");
  const focused = frame.querySelector("svg") === document.activeElement;
  frame.querySelector("svg")?.remove();
  frame.append(svg);
  if (focused) svg.focus();
  for (const holder of document.querySelectorAll("#partners .frame")) holder.querySelector("svg")?.remove();
  for (const place of found.kept) markPartner(explanation.descriptors[place], place);
}

/** The picture in its colours where patches count; the picture below is pale, so that the subject stays visible. */
function inColour(boxes) {
  const clip = makeSvg("clipPath", { id: "counted" });
  clip.append(...boxes.map(([left, top, right, bottom]) => makeSvg("rect", { x: left, y: top, width: right - left, height: bottom - top })));
  return [clip, makeSvg("image", { href: shown.url, width: 1, height: 1, preserveAspectRatio: "none", "clip-path": "url(#counted)" })];
}

function markPartner({ partner }, place) {
  const holder = document.querySelector(`#partners .frame[data-picture="${partner.image}"]`);
  if (!holder) return; // an adopted patch of an unlabelled picture
  const svg = holder.querySelector("svg") ?? holder.appendChild(makeSvg("svg", { class: "patches", viewBox: "0 0 1 1", preserveAspectRatio: "none", "aria-hidden": "true" }));
  svg.append(patch(shown.explanation.support_boxes[partner.place], { class: "kept", "data-place": place, "--colour": shown.colours[partner.class] }));
}

function patch([left, top, right, bottom], attributes) {
  const [width, height] = [right - left, bottom - top];
  const gap = attributes.class === "kept" ? 0.06 : 0;
  return makeSvg("rect", { x: left + gap * width, y: top + gap * height, width: width * (1 - 2 * gap), height: height * (1 - 2 * gap), rx: gap * width * 2, ...attributes });
}

/** Curves from kept patches to their partners: as wide as the lead is large, in the colour of the class. */
export function drawLines() {
  const svg = $("lines");
  svg.replaceChildren();
  if (!shown || $("answer").hidden) return;
  const { explanation, rule } = shown;
  const stage = $("stage").getBoundingClientRect();
  svg.setAttribute("viewBox", `0 0 ${stage.width} ${stage.height}`);
  const kept = explanation.rules[RULES[rule]].kept.map((place) => ({ place, ...explanation.descriptors[place] }))
    .sort((one, other) => other.tau - one.tau).slice(0, DRAWN);
  const widest = Math.max(...kept.map((one) => one.tau), 1e-6);
  for (const one of kept.reverse()) svg.append(...line(one, one.place, one.tau / widest));
}

/** The curve from a patch to its partner; none if the partner is not on the page. */
function line(one, place, share, kind = "") {
  const holder = document.querySelector(`#partners .frame[data-picture="${one.partner.image}"]`);
  if (!holder) return []; // an adopted patch of an unlabelled picture
  const stage = $("stage").getBoundingClientRect();
  const query = document.querySelector("#query .frame").getBoundingClientRect();
  const [x, y] = middle(query, one.box, stage);
  const [toX, toY] = middle(holder.getBoundingClientRect(), shown.explanation.support_boxes[one.partner.place], stage);
  const stacked = $("partners").getBoundingClientRect().top > query.bottom;
  const bend = stacked ? `${x},${(y + toY) / 2} ${toX},${(y + toY) / 2}` : `${(x + toX) / 2},${y} ${(x + toX) / 2},${toY}`;
  return [makeSvg("path", { d: `M${x},${y} C${bend} ${toX},${toY}`, class: kind, "data-place": place, "--colour": shown.colours[one.partner.class],
    "stroke-width": 0.8 + 3.2 * share, "stroke-opacity": 0.25 + 0.65 * share })];
}

function middle(frame, [left, top, right, bottom], stage) {
  return [frame.left - stage.left + frame.width * (left + right) / 2, frame.top - stage.top + frame.height * (top + bottom) / 2];
}

function point(place) {
  if (!shown) return;
  const next = place === undefined ? null : Number(place);
  if (next === shown.patch) return;
  shown.patch = next;
  tellPatch();
}

function move(event) {
  const [, width] = shown.explanation.grid;
  const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -width, ArrowDown: width }[event.key];
  if (!step) return;
  event.preventDefault();
  const next = shown.patch === null ? 0 : shown.patch + step;
  if (next >= 0 && next < shown.explanation.descriptors.length) point(next);
}

function tellPatch() {
  const { explanation, rule, patch: place } = shown;
  $("stage").classList.toggle("pointing", place !== null);
  for (const mark of document.querySelectorAll("#stage [data-place]")) mark.classList.toggle("pointed", Number(mark.dataset.place) === place);
  $("lines").querySelector(".guess")?.remove();
  const { kept } = explanation.rules[RULES[rule]];
  if (place === null) {
    $("patch-text").textContent = `Point at a patch, or move over the picture with the arrow keys.${kept.length > DRAWN ? ` The ${DRAWN} strongest lines are drawn.` : ""}`;
    return;
  }
  const one = explanation.descriptors[place];
  const counts = kept.includes(place);
  if (!$("lines").querySelector(".pointed")) $("lines").append(...line(one, place, 0.4, counts ? "guess pointed" : "guess dashed pointed"));
  const similar = `Most like a patch of ${explanation.classes[one.partner.class]}: similarity ${one.partner.cosine.toFixed(2)}, ${one.tau.toFixed(2)} ahead of the next class.`;
  $("patch-text").textContent = `${similar} ${counts ? "It counts." : "It does not count."}`;
}

function drawSums(found) {
  const { explanation } = shown;
  const [low, high] = [Math.min(0, ...found.scores), Math.max(...found.scores, 1e-6)];
  $("sums").replaceChildren(...order(found.scores).map((number) => bar(explanation.classes[number], (found.scores[number] - low) / (high - low),
    found.scores[number].toFixed(2), shown.colours[number], explanation.classes[number] === found.verdict)));
}

function drawTable(found) {
  const { explanation } = shown;
  const [, width] = explanation.grid;
  const best = found.kept.map((place) => ({ place, ...explanation.descriptors[place] })).sort((one, other) => other.tau - one.tau).slice(0, 12);
  $("matches").replaceChildren(...best.map((one) => make("tr", {}, ...[`${Math.floor(one.place / width) + 1}, ${one.place % width + 1}`, explanation.classes[one.partner.class],
    String(one.partner.image + 1), one.partner.cosine.toFixed(3), one.tau.toFixed(3)].map((text) => make("td", {}, text)))));
}

$("all-classes").addEventListener("click", () => { shown.all = !shown.all; drawClasses(); });
new ResizeObserver(drawLines).observe($("stage"));
document.addEventListener("load", (event) => { if (event.target.closest?.("#stage")) drawLines(); }, true);
