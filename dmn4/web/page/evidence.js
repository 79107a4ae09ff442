// Why: the patches that count, lines to their partners, sums of votes; under DN4, MN4 or DMN4.

import { shotPath } from "./api.js";
import { $, colour, make, makeSvg } from "./dom.js";

export const RULES = ["dn4", "mn4", "dmn4"];
const WORDS = {
  dn4: "DN4: every patch votes for the class of its nearest neighbour, background as loudly as the rest.",
  mn4: "MN4: a patch votes only if its nearest neighbour, looking back, chooses it too.",
  dmn4: "DMN4: of the patches that chose the same neighbour, the one that tells the classes apart best votes.",
};
const DRAWN = 40; // lines at a time: more would hide the pictures

let shown = null; // {classifier, explanation, rule, patch}

export function showEvidence(classifier, explanation, url, rule) {
  shown = { classifier, explanation, rule, patch: null };
  $("query-picture").src = url;
  drawPartners();
  setRule(rule);
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
    ` patches count, and they say ${found.verdict}.`, name !== "dn4" && explanation.dn4_verdict !== found.verdict ? ` All patches together would have said ${explanation.dn4_verdict}.` : "");
  drawSums(found);
  drawTable(found);
  drawPatches(found);
  drawLines();
  tellPatch();
}

/** The support pictures that any patch chose under any rule, class by class. */
function drawPartners() {
  const { classifier, explanation } = shown;
  const chosen = new Set(explanation.descriptors.map((one) => one.partner.image));
  const rows = explanation.classes.map((label, number) => {
    const known = classifier.classes.find((one) => one.label === label);
    const pictures = (known?.pictures ?? []).map((picture) => make("div", { class: chosen.has(picture) ? "frame" : "frame unused", "data-picture": picture },
      make("img", { src: shotPath(classifier, picture), alt: `A picture of ${label}` })));
    return make("div", { class: "row", "--colour": colour(number) }, make("h3", {}, label), make("div", { class: "pictures" }, ...pictures));
  });
  $("partners").replaceChildren(...rows);
}

function drawPatches(found) {
  const { explanation } = shown;
  const kept = new Set(found.kept);
  const svg = makeSvg("svg", { class: "patches", viewBox: "0 0 1 1", preserveAspectRatio: "none", tabindex: 0, role: "group",
    "aria-label": "Patches of the picture; move with the arrow keys", "aria-describedby": "patch-text" });
  explanation.descriptors.forEach((one, place) => svg.append(patch(one.box, {
    class: kept.has(place) ? "kept" : "dropped", "data-place": place, "--colour": colour(one.partner.class) })));
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

function markPartner({ partner }, place) {
  const holder = document.querySelector(`#partners .frame[data-picture="${partner.image}"]`);
  if (!holder) return; // an adopted patch of an unlabelled picture
  const svg = holder.querySelector("svg") ?? holder.appendChild(makeSvg("svg", { class: "patches", viewBox: "0 0 1 1", preserveAspectRatio: "none", "aria-hidden": "true" }));
  svg.append(patch(shown.explanation.support_boxes[partner.place], { class: "kept", "data-place": place, "--colour": colour(partner.class) }));
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
  return [makeSvg("path", { d: `M${x},${y} C${bend} ${toX},${toY}`, class: kind, "data-place": place, "--colour": colour(one.partner.class),
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
  $("sums").replaceChildren(...explanation.classes.map((label, number) => bar(label, (found.scores[number] - low) / (high - low), found.scores[number].toFixed(2), number, label === found.verdict)));
}

function drawTable(found) {
  const { explanation } = shown;
  const [, width] = explanation.grid;
  const best = found.kept.map((place) => ({ place, ...explanation.descriptors[place] })).sort((one, other) => other.tau - one.tau).slice(0, 12);
  $("matches").replaceChildren(...best.map((one) => make("tr", {}, ...[`${Math.floor(one.place / width) + 1}, ${one.place % width + 1}`, explanation.classes[one.partner.class],
    String(one.partner.image + 1), one.partner.cosine.toFixed(3), one.tau.toFixed(3)].map((text) => make("td", {}, text)))));
}

/** A labelled bar: share of the full length 0..1. */
export function bar(label, share, text, number, strong) {
  return make("div", { role: "listitem", class: strong ? "bar strong" : "bar", "--colour": colour(number), "--share": `${100 * share}%` },
    make("span", { class: "bar-label" }, label), make("span", { class: "bar-track", "aria-hidden": "true" }, make("span", { class: "bar-fill" })), make("span", { class: "bar-text" }, text));
}
