// The pictures that were asked about: looked at in the background, shown as tiles, sorted by doubt, kept as a table.

import * as api from "./api.js";
import { $, colour, count, make, roam } from "./dom.js";
import { download } from "./files.js";
import { thumbnail } from "./shrink.js";
import { changed, inWords, labels, onChange, state, version } from "./state.js";
import { complain } from "./telling.js";

const TOGETHER = 4; // pictures on their way to the service, which answers them in one batch
const SUGGESTED = 10;
const TILES = 300; // drawn at once

/** A picture to ask about; `mark` is what a person said of it, see `inWords`. */
const item = ({ file, path }) => ({ name: path, picture: file, thumb: null, said: null, of: "", error: "", mark: null, suggested: 0, asking: false });

export function addItems(files) {
  const items = files.map(item);
  state.items = [...state.items, ...items];
  stopped = "";
  changed();
  return items;
}

// ---------------------------------------------------------------------------------------------------- looking

const waits = (one) => !one.mark && !one.asking && one.of !== version();
let workers = 0;
let stopped = ""; // the version at which the service did not answer

/** Look at every picture that was not looked at yet, or before the classifier changed. */
export function lookAtAll() {
  while (workers < TOGETHER && stopped !== version() && state.classifier && state.items.filter(waits).length > workers) {
    workers += 1;
    work().finally(() => { workers -= 1; changed(); });
  }
}

async function work() {
  for (;;) {
    const next = state.items.find((one) => waits(one) && !one.said && !one.error) ?? byDoubt(state.items.filter(waits))[0];
    if (!next || !state.classifier || stopped === version()) return;
    next.asking = true;
    try {
      await lookAt(next, api.predict);
    } catch (error) {
      complain(error);
      stopped = version();
      return;
    } finally {
      next.asking = false;
      changed();
    }
  }
}

/** Have the service say what a picture is; a picture that it cannot read keeps the reason. */
export async function lookAt(one, ask) {
  const of = version();
  one.thumb ??= await thumbnail(one.picture);
  try {
    one.said = await ask(state.classifier.id, one.picture);
    one.error = "";
  } catch (error) {
    if (!error.message.startsWith("picture")) throw error;
    one.error = error.message;
  }
  one.of = of;
}

// -------------------------------------------------------------------------------------------------- sorting

const doubt = ({ said }) => (said ? (said.none_of_these ? 2 : 1) - said.probability : -1);
export const byDoubt = (items) => [...items].sort((one, other) => doubt(other) - doubt(one));
export const labelOf = (one) => (one.mark ? one.mark.label : one.said && !one.said.none_of_these ? one.said.label : null);

const FILTERS = {
  all: ["All", () => true],
  doubtful: ["Doubtful", (one) => !one.mark && one.said?.doubtful],
  none: ["None of these", (one) => (one.mark || one.said) && !one.mark?.not && labelOf(one) === null],
  suggested: ["Label next", (one) => one.suggested && !one.mark],
  labelled: ["Checked by you", (one) => one.mark],
  unreadable: ["Unreadable", (one) => one.error],
};
let [filter, only] = ["all", ""];

export const chosen = (name = filter) => state.items.filter((one) => FILTERS[name][1](one) && (name !== filter || !only || labelOf(one) === only));

/** Show only the pictures of one filter. */
export function choose(name) {
  filter = name;
  changed();
}

/** Have the service choose the pictures whose labels would help most. */
export async function suggest() {
  const open = state.items.filter((one) => !one.mark && !one.error);
  const step = Math.max(1, open.length / state.limits.pictures);
  const some = Array.from({ length: Math.min(open.length, state.limits.pictures) }, (_, place) => open[Math.floor(place * step)]); // an even share
  const places = await api.suggest(state.classifier.id, some.map(({ picture }) => picture), SUGGESTED);
  for (const one of state.items) one.suggested = some.includes(one) ? places.indexOf(some.indexOf(one)) + 1 : 0;
  choose("suggested");
}

// --------------------------------------------------------------------------------------------------- drawing

let open = () => {};
export const onOpen = (work) => { open = work; };

function draw() {
  const many = state.items.length > 1 || state.items.some((one) => one.error);
  $("pictures").hidden = !state.classifier || !many;
  if ($("pictures").hidden) return;
  const left = state.items.filter((one) => !one.mark && one.of !== version()).length;
  $("looking").hidden = !left;
  $("go-on").hidden = !left || stopped !== version();
  Object.assign($("looking"), { max: state.items.length, value: state.items.length - left });
  $("looked").textContent = left ? `${state.items.length - left} of ${state.items.length} looked at` : summary();
  if (filter !== "all" && !chosen().length && !left && filter !== "suggested") only = "";
  drawFilters();
  const sorted = filter === "suggested" ? chosen().sort((one, other) => one.suggested - other.suggested) : filter === "all" ? chosen() : byDoubt(chosen());
  const tiles = sorted.slice(0, TILES).map(tile);
  if (tiles.length !== $("tiles").children.length || tiles.some((one, place) => one !== $("tiles").children[place])) {
    const focused = document.activeElement;
    $("tiles").replaceChildren(...tiles);
    if (tiles.includes(focused)) focused.focus();
    tiles.forEach((one, place) => { one.tabIndex = place ? -1 : 0; });
  }
  $("more-tiles").textContent = sorted.length > TILES ? `The first ${TILES} of ${sorted.length} are shown; the table holds all.` : sorted.length ? "" : "No such pictures.";
  const doubtful = chosen("doubtful").length;
  $("review-doubtful").textContent = `Check the doubtful (${doubtful})`;
  $("review-doubtful").disabled = !doubtful;
  $("review-suggested").hidden = !chosen("suggested").length;
  $("review-suggested").textContent = `Label these ${chosen("suggested").length}`;
}

function summary() {
  const doubtful = chosen("doubtful").length;
  return `${count(state.items.length, "picture")}, ${doubtful ? `${doubtful} doubtful` : "none doubtful"}`;
}

function drawFilters() {
  const texts = Object.entries(FILTERS).map(([name, [text]]) => [name, text, chosen(name).length]).filter(([name, , size]) => size || name === "all" || name === filter);
  const key = JSON.stringify([texts, filter, only, labels()]);
  if ($("filters").dataset.key === key) return;
  $("filters").dataset.key = key;
  const focused = $("filters").contains(document.activeElement) && document.activeElement.dataset.filter;
  const buttons = texts.map(([name, text, size]) => make("button", { class: "chip", "data-filter": name, "aria-pressed": String(name === filter), onclick: () => choose(name) }, text, make("span", {}, String(size))));
  const select = make("select", { "aria-label": "Only of the class", onchange: (event) => { only = event.target.value; changed(); } },
    make("option", { value: "" }, "every class"), ...labels().map((name) => make("option", { value: name, ...(name === only ? { selected: true } : {}) }, name)));
  $("filters").replaceChildren(...buttons, select);
  if (focused) $("filters").querySelector(`[data-filter="${focused}"]`)?.focus();
}

const drawnTiles = new WeakMap();

/** The tile of a picture, drawn anew if anything about it changed. */
function tile(one) {
  const known = drawnTiles.get(one);
  const words = one.error ? "cannot be read" : one.mark ? inWords(one.mark) : one.said?.words ?? "…";
  const key = [words, one.said?.chance, one.thumb, Boolean(one.mark), one.suggested, one === state.open, one.said?.doubtful, labels().indexOf(labelOf(one))].join("\n");
  const element = known?.element ?? make("button", { onclick: () => open(one) });
  if (known?.key === key) return element;
  const label = labelOf(one);
  element.className = ["tile", one.error && "broken", one.mark && "marked", one.said?.doubtful && !one.mark && "doubtful", one === state.open && "open", !one.said && !one.error && "waiting"].filter(Boolean).join(" ");
  element.style.setProperty("--colour", label === null ? "var(--line)" : colour(labels().indexOf(label)));
  element.setAttribute("aria-label", `${one.name}: ${one.error || (one.mark ? `${words}, checked by you` : one.said?.line ?? "not looked at yet")}${one.suggested ? `, suggestion ${one.suggested}` : ""}`);
  element.title = element.getAttribute("aria-label");
  element.replaceChildren(one.thumb ? make("img", { src: one.thumb, alt: "" }) : make("span", { class: "blank" }),
    make("span", { class: "tile-words" }, words), make("span", { class: "tile-chance" }, one.error ? "" : one.mark ? "checked" : one.said?.chance ?? ""),
    ...(one.suggested && !one.mark ? [make("span", { class: "badge", "aria-hidden": "true" }, String(one.suggested))] : []));
  drawnTiles.set(one, { element, key });
  return element;
}

// ---------------------------------------------------------------------------------------------------- keeping

/** The pictures as the table that `dmn4 predict --csv` writes; labels that a person gave stand in place of the verdict. */
function table() {
  const cell = (text) => {
    const safe = /^'*[=+\-@\t\r]/.test(text) ? `'${text}` : text; // no spreadsheet takes it for a formula
    return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  const chance = (share) => (share === null || share === undefined ? "" : Math.min(Math.max(share, 0.0001), 0.9999).toFixed(4));
  const rows = state.items.map(({ name, said, mark, error }) => [name, mark ? inWords(mark) : said?.words ?? "", said?.label ?? "", chance(said?.probability), chance(said?.known), said?.perhaps.join("; ") ?? "", error]);
  return [["image", "label", "nearest", "probability", "known", "perhaps", "error"], ...rows].map((row) => `${row.map(cell).join(",")}\n`).join("");
}

roam($("tiles"), ".tile");
$("go-on").addEventListener("click", () => { stopped = ""; changed(); });
$("save-table").addEventListener("click", () => download("names.csv", table()));
$("clear-pictures").addEventListener("click", () => { state.items = []; filter = "all"; changed(); });
onChange(draw);
onChange(lookAtAll);
