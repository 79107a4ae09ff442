"use strict";
const content = JSON.parse(document.getElementById("content").textContent);
const { classes, rows, shots, palette, none, base } = content;
const PAGE = 60, NONE = -1;
const get = id => document.getElementById(id);
const nameOf = place => place === NONE ? none : classes[place];

function make(tag, attributes = {}, ...children) {
  const svg = ["svg", "image", "path", "circle", "rect", "text", "g", "mask", "title", "filter", "feColorMatrix"].includes(tag);
  const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}
function button(words, act, attributes = {}) {
  const made = make("button", { type: "button", ...attributes }, words);
  made.addEventListener("click", act);
  return made;
}

// ---------------------------------------------------------------------------------------------- corrections
const given = new Map(), done = [];                   // row -> label; what was changed, in order: [row, label before]
const key = `dmn4 ${content.name} ${base} ${rows.length}`;
try {
  const known = new Map(rows.map((row, place) => [row.name, place]));
  for (const [name, label] of JSON.parse(localStorage.getItem(key) || "[]")) {
    if (known.has(name)) { done.push([known.get(name), undefined]); given.set(known.get(name), label); }
  }
} catch { /* a browser that keeps nothing for files */ }

function keep() {
  try { localStorage.setItem(key, JSON.stringify([...given].map(([place, label]) => [rows[place].name, label]))); } catch { /* as above */ }
}
function correct(place, label) {
  if (!rows[place].file || !label) return;
  done.push([place, given.get(place)]);
  given.set(place, label);
  changed(place);
}
function undo() {
  if (!done.length) return;
  const [place, before] = done.pop();
  if (before === undefined) given.delete(place); else given.set(place, before);
  changed(place);
}
function changed(place) {
  keep();
  tools();
  const card = document.querySelector(`[data-place="${place}"]`);
  if (card) card.replaceWith(cardOf(place));
  if (shown === place) show(place);
}
const FORMULA = /^'*[=+\-@\t\r]/, NUMBER = /^[+-]?[0-9]+(\.[0-9]*)?(e[+-]?[0-9]+)?$/;
function cell(text) {                                 // as dmn4 reads it back, and no spreadsheet computes it
  return `"${(FORMULA.test(text) && !NUMBER.test(text) ? "'" : "") + text.replaceAll('"', '""')}"`;
}
function table() {
  const path = row => base ? `${base}${base.endsWith("/") ? "" : "/"}${row.name}` : row.name;
  return ["image,label", ...[...given].map(([place, label]) => `${cell(path(rows[place]))},${cell(label)}`), ""].join("\n");
}
get("undo").addEventListener("click", undo);
get("download").addEventListener("click", () => {
  const link = make("a", { download: "corrections.csv", href: URL.createObjectURL(new Blob([table()], { type: "text/csv" })) });
  link.click();
  URL.revokeObjectURL(link.href);
});

// --------------------------------------------------------------------------------- which pictures, and in which order
const told = rows.some(row => "truth" in row);
const right = row => row.truth === row.said;
const VERDICTS = {
  all: () => true,
  named: row => row.said >= 0,
  [none]: row => row.said === NONE,
  wrong: row => "truth" in row && !row.error && !right(row),
  right: row => "truth" in row && !row.error && right(row),
  unreadable: row => Boolean(row.error),
  corrected: (row, place) => given.has(place),
};
const ORDERS = { doubt: (a, b) => a - b, sure: (a, b) => b - a, name: (a, b) => rows[a].name.localeCompare(rows[b].name) };
const order = rows.map((_, place) => place);
let verdict = "all", start = 0, listed = order, shown = -1;

function fill(select, field, words) {
  const counts = new Map();
  for (const row of rows) if (field in row) counts.set(row[field], (counts.get(row[field]) || 0) + 1);
  const places = [...counts.keys()].sort((a, b) => nameOf(a).localeCompare(nameOf(b)));
  select.append(make("option", { value: "" }, words),
                ...places.map(place => make("option", { value: place }, `${nameOf(place)} (${counts.get(place)})`)));
  select.addEventListener("change", choose);
}
function choose() {
  const said = get("said").value, truth = get("truth").value;
  listed = order.filter(place => VERDICTS[verdict](rows[place], place) && (!said || String(rows[place].said) === said)
                                 && (!truth || String(rows[place].truth) === truth)).sort(ORDERS[get("order").value]);
  turn(0);
  tools();
}
function tools() {
  get("verdicts").replaceChildren(...Object.entries(VERDICTS).map(([name, wanted]) => [name, rows.filter(wanted).length])
    .filter(([name, count]) => count || name === verdict)
    .map(([name, count]) => button(`${name} ${count.toLocaleString("en")}`, () => { verdict = name; choose(); },
                                   { "aria-pressed": String(name === verdict) })));
  get("corrections").hidden = !done.length;
  get("corrected").textContent = `${given.size} correction${given.size === 1 ? "" : "s"}`;
}
function turn(to) {
  start = Math.max(0, Math.min(to, listed.length - 1));
  start -= start % PAGE;
  get("cards").replaceChildren(...listed.slice(start, start + PAGE).map(cardOf));
  const end = Math.min(start + PAGE, listed.length);
  get("where").textContent = listed.length ? `${start + 1} to ${end} of ${listed.length.toLocaleString("en")}` : "no pictures";
  get("back").disabled = start === 0;
  get("on").disabled = end >= listed.length;
}
function cardOf(place) {
  const row = rows[place], parts = [];
  if (row.error) parts.push(make("div", { class: "broken" }, row.error));
  else {
    const mark = "truth" in row ? (right(row) ? "✓ " : "✗ ") : "";
    const text = make("div", {}, make("b", { class: mark && (right(row) ? "right" : "wrong") }, mark + nameOf(row.said)),
                      make("small", {}, "truth" in row && !right(row) ? `is ${row.is}` : row.chance));
    if (given.has(place)) text.append(make("span", { class: "given" }, `→ ${given.get(place)}`));
    parts.push(make("img", { src: row.small || row.file, alt: row.name, loading: "lazy", decoding: "async" }), text);
  }
  const card = make("button", { class: "card", type: "button", "data-place": place, "aria-pressed": String(place === shown) }, ...parts);
  if (!row.error) card.addEventListener("click", () => show(place));
  return card;
}
for (const one of document.querySelectorAll("[data-truth]")) {
  one.addEventListener("click", () => {
    verdict = "all";
    get("truth").value = one.dataset.truth;
    get("said").value = one.dataset.said;
    choose();
    get("cards").scrollIntoView({ block: "center" });
  });
}
get("back").addEventListener("click", () => turn(start - PAGE));
get("on").addEventListener("click", () => { turn(start + PAGE); get("verdicts").scrollIntoView(); });
get("order").addEventListener("change", choose);
get("truths").hidden = !told;

// ------------------------------------------------------------------------------------------------- one picture
function show(place) {
  const row = rows[place];
  document.querySelector(`.card[data-place="${shown}"]`)?.setAttribute("aria-pressed", "false");
  shown = place;
  document.querySelector(`.card[data-place="${place}"]`)?.setAttribute("aria-pressed", "true");
  const told = "truth" in row ? ` It is ${row.is}.` : "";
  const known = row.known ? ` ${row.known} of the pictures of your classes fit no better.` : "";
  get("panel").replaceChildren(
    make("h3", { class: told && (right(row) ? "right" : "wrong") }, `${nameOf(row.said)} (${[row.chance, row.others].filter(Boolean).join(", ")})`),
    make("div", { class: "faint name-of" }, row.name), make("div", {}, `${row.why ? row.why.tally : ""}${known}${told}`.trim()));
  get("panel").append(row.why ? drawing(row) : whole(row));
  if (row.file) get("panel").append(answers(place));
  if (!row.why) get("panel").append(shotsOf(row.likely[0][0]));
  get("side").classList.add("open");
}
function answers(place) {
  const row = rows[place], now = given.get(place);
  const answer = (label, hint) => button(label, () => correct(place, label), { "aria-pressed": String(now === label) });
  const made = make("div", { class: "answers", role: "group", "aria-label": "What it is" }, "It is");
  [...row.likely.map(([label]) => nameOf(label)), none].forEach((label, number) => {
    const one = answer(label);
    one.append(make("kbd", {}, label === none ? "u" : String(number + 1)));
    made.append(one);
  });
  const other = make("input", { list: "names", placeholder: "another class", "aria-label": "Another class" });
  other.addEventListener("change", () => correct(place, other.value.trim()));
  made.append(other);
  return made;
}
function whole(row) {
  const picture = make("img", { class: "whole", src: row.file || row.small, alt: row.name });
  if (row.file && row.small) picture.addEventListener("error", () => { picture.src = row.small; }, { once: true });
  return picture;
}
function shotsOf(label, most = 16) {
  return make("div", { class: "class" }, make("b", {}, nameOf(label)),
    make("span", {}, ...Object.values(shots).filter(shot => shot.label === label).slice(0, most)
      .map(shot => make("img", { src: shot.picture, alt: nameOf(label), loading: "lazy" }))));
}
function step(by) {
  const next = listed[listed.indexOf(shown) + by];
  if (next === undefined || rows[next].error) return;
  const place = listed.indexOf(next);
  if (place < start || place >= start + PAGE) turn(place);
  show(next);
  document.querySelector(`.card[data-place="${next}"]`)?.focus({ preventScroll: get("side").offsetHeight === 0 });
}
function answerByKey(label) {
  const place = shown, at = listed.indexOf(place);
  if (!label || !rows[place]?.file) return;
  correct(place, label);
  if (at >= 0) step(1);
}
document.addEventListener("keydown", event => {
  if (["INPUT", "SELECT"].includes(event.target.tagName) || event.altKey) return;
  const row = rows[shown];
  if ((event.ctrlKey || event.metaKey) && event.key === "z") undo();
  else if (event.ctrlKey || event.metaKey || !row) return;
  else if (event.key === "y") answerByKey(nameOf(row.said));
  else if (event.key === "u") answerByKey(none);
  else if (/^[1-9]$/.test(event.key) && row.likely[event.key - 1]) answerByKey(nameOf(row.likely[event.key - 1][0]));
  else if (event.key === "ArrowRight") step(1);
  else if (event.key === "ArrowLeft") step(-1);
  else if (event.key === "Escape") get("side").classList.remove("open");
  else return;
  event.preventDefault();
});
get("close").addEventListener("click", () => get("side").classList.remove("open"));

// ------------------------------------------------------------------------------------------------- its evidence
const SIDE = 330, SHOT = 92, LEFT = 404, ROW = 118;
function spot([left, top, rightSide, bottom], x, y, width, height) {
  return [x + width * (left + rightSide) / 2, y + height * (top + bottom) / 2];
}
function thread([x1, y1], [x2, y2], colour, width) {
  const middle = (x1 + x2) / 2, d = `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`;
  return make("g", {},
    make("path", { d, fill: "none", stroke: "#fff", "stroke-width": width + 1.4, opacity: .6 }),
    make("path", { d, fill: "none", stroke: colour, "stroke-width": width }));
}
const dot = ([cx, cy], r, fill) => make("circle", { cx, cy, r, fill, stroke: "#fff", "stroke-width": 1 });
const words = (x, y, text, more = {}) => make("text", { x, y, "font-size": 12, fill: "#1c2026", ...more }, text);
const shortened = (text, most) => text.length > most ? `${text.slice(0, most - 1)}…` : text;

function drawing(row) {
  const why = row.why, order = why.sums.map(([label]) => label);
  const colour = label => palette[order.indexOf(label)] || "#8c929a";
  const svg = make("svg", { role: "img", "aria-label": `Why ${nameOf(row.said)}` }), labels = make("g"), places = {};
  const picture = new Image();
  picture.onload = () => {
    const shape = picture.naturalWidth / picture.naturalHeight;
    const width = SIDE * Math.min(1, shape), tall = SIDE * Math.min(1, 1 / shape);
    svg.setAttribute("viewBox", `0 0 700 ${3 * ROW + 34 + 26 * order.length}`);
    svg.append(...seen(row, width, tall));
    order.slice(0, 3).forEach((label, line) => {
      const strength = image => why.pairs.reduce((sum, pair) => sum + (pair[2] === image ? pair[4] : 0), 0);
      const own = Object.keys(shots).map(Number).filter(image => shots[image].label === label);
      own.sort((a, b) => strength(b) - strength(a)).slice(0, 3).forEach((image, column) => {
        places[image] = [LEFT + column * (SHOT + 8), line * ROW + 20];
        svg.append(make("image", { x: places[image][0], y: places[image][1], width: SHOT, height: SHOT,
                                   preserveAspectRatio: "none", href: shots[image].picture }));
      });
      labels.append(dot([LEFT + 6, line * ROW + 9], 5, colour(label)),
        words(LEFT + 16, line * ROW + 13, `${shortened(nameOf(label), 24)} · ${why.sums[line][1]} patch${why.sums[line][1] === 1 ? "" : "es"}`,
              { "font-weight": 600, stroke: "#fff", "stroke-width": 3, "paint-order": "stroke" }));
    });
    const largest = Math.max(...why.pairs.map(pair => pair[4]), 1e-9);
    for (const [place, label, image, partner, lead] of [...why.pairs].reverse()) {
      const from = spot(content.boxes[place], 0, 6, width, tall), weight = lead / largest;
      if (places[image]) {
        const to = spot(content.supportBoxes[partner], ...places[image], SHOT, SHOT);
        svg.append(thread(from, to, colour(label), .9 + 2.4 * weight), dot(to, 2 + 2 * weight, colour(label)));
      }
      svg.append(dot(from, 2 + 2 * weight, colour(label)));
    }
    svg.append(labels, bars(why, colour, 3 * ROW + 14));
  };
  picture.src = row.large;
  return svg;
}
function seen(row, width, tall) {                     // what voted in its colours, the rest paler and grey
  const place = { width, height: tall, x: 0, y: 6, preserveAspectRatio: "none", href: row.large };
  const voted = row.why.voted.map(number => {
    const [left, top, rightSide, bottom] = content.boxes[number];
    return { x: width * left, y: 6 + tall * top, width: width * (rightSide - left), height: tall * (bottom - top) };
  });
  const frames = voted.map(box => make("rect", { ...box, fill: "none", stroke: "#fff", "stroke-width": 2 }));
  const mask = make("mask", { id: "voted" }, ...voted.map(box => make("rect", { ...box, fill: "#fff", stroke: "#fff" })));
  return [mask, make("image", { ...place, style: "filter: grayscale(1)" }),
          make("rect", { x: 0, y: 6, width, height: tall, fill: "#fff", opacity: .4 }), ...frames,
          make("image", { ...place, mask: "url(#voted)" })];
}
function bars(why, colour, top) {
  const longest = Math.max(...why.sums.flatMap(sum => sum.slice(3)), 1e-9), group = make("g");
  group.append(words(0, top, `Class sums, above the weakest: ${why.words}`, { fill: "#616973", "font-size": 11 }));
  why.sums.forEach(([label, , score, full, hollow], line) => {
    const y = top + 12 + 26 * line, width = value => 440 * value / longest;
    group.append(words(140, y + 13, shortened(nameOf(label), 19), { "text-anchor": "end" }),
      make("rect", { x: 150, y, width: width(full), height: 10, fill: colour(label) }),
      make("rect", { x: 150.5, y: y + 12.5, width: width(hollow), height: 6, fill: "none", stroke: colour(label) }),
      words(700, y + 13, score.toFixed(2).replace(/^-0.00$/, "0.00"), { "text-anchor": "end" }));
  });
  return group;
}

// ------------------------------------------------------------------------------------------------------- the page
document.body.append(make("datalist", { id: "names" }, ...classes.map(name => make("option", { value: name }))));
fill(get("said"), "said", "anything");
fill(get("truth"), "truth", "any");
get("classes").append(...classes.map((_, label) => shotsOf(label)));
choose();
if (matchMedia("(min-width: 1151px)").matches && listed.length && !rows[listed[0]].error) show(listed[0]);
