// "Have I labelled enough?": accuracy against labelled pictures, class by class, and what is confused.

import * as api from "./api.js";
import { bar, colour, count, make, makeSvg } from "./dom.js";
import { labels, state } from "./state.js";
import { busily } from "./telling.js";

const FEW = 8; // classes that are shown at first
const [WIDTH, HEIGHT, LEFT, TOP, BOTTOM] = [560, 220, 44, 12, 30];

/** Ask the service, and show what it says. */
export function enough() {
  return busily("Judging every labelled picture by the others", async () => show(await api.curve(state.classifier.id)));
}

function show(curve) {
  const close = make("button", { class: "icon", "aria-label": "Close", onclick: () => dialog.close() }, "×");
  const holder = make("div", { class: "accuracies", role: "list", "aria-label": "How often each class is named rightly" });
  const all = make("button", { class: "quiet", onclick: () => draw(curve.classes) }, `Show all ${count(curve.classes.length, "class")}`);
  const draw = (classes) => { all.hidden = classes.length === curve.classes.length; holder.replaceChildren(...classes.map(accuracy)); };
  const dialog = make("dialog", { class: "enough", "aria-labelledby": "enough-title" },
    make("div", { class: "name" }, make("h2", { id: "enough-title" }, "Have I labelled enough?"), close),
    make("p", {}, `${curve.advice} `, make("b", {}, curve.next)),
    plot(curve),
    make("h3", {}, "Class by class, the worst first"), holder, all,
    make("p", { class: "small" }, `From ${count(curve.judged, "labelled picture")}, each judged by the others. In brackets: where the truth lies nineteen times in twenty.`));
  draw(curve.classes.slice(0, FEW));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

function accuracy({ label, now, confused }) {
  const line = bar(label, now.accuracy, now.words, colour(labels().indexOf(label)), true);
  if (confused) line.append(make("small", {}, `taken for ${confused}`));
  return line;
}

/** Dots for what was measured with fewer pictures, a line for what is expected; bars are the intervals. */
function plot({ measured, expected }) {
  const points = [...measured, ...expected];
  const shots = points.map((one) => Math.log(one.shots));
  const [first, last] = [Math.min(...shots), Math.max(...shots)];
  const lowest = Math.floor(5 * Math.min(...points.map((one) => one.low))) / 5;
  const x = (one) => LEFT + 24 + ((WIDTH - LEFT - 48) * (Math.log(one.shots) - first)) / (last - first);
  const y = (share) => TOP + ((HEIGHT - TOP - BOTTOM) * (1 - share)) / (1 - lowest);
  const levels = [0, 0.2, 0.4, 0.6, 0.8, 1].filter((share) => share >= lowest - 0.01);
  const series = (some, kind) => makeSvg("g", { class: kind }, makeSvg("polyline", { points: some.map((one) => `${x(one)},${y(one.accuracy)}`).join(" ") }),
    ...some.flatMap((one) => [makeSvg("line", { x1: x(one), x2: x(one), y1: y(one.low), y2: y(one.high) }), makeSvg("circle", { cx: x(one), cy: y(one.accuracy), r: 4 })]));
  const words = [...expected.map((one, place) => `${["now", "twice as many", "four times as many"][place]}: ${one.words}`)].join("; ");
  return makeSvg("svg", { class: "plot", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `Named rightly ${words}` },
    ...levels.flatMap((share) => [makeSvg("line", { class: "level", x1: LEFT, x2: WIDTH, y1: y(share), y2: y(share) }), text(LEFT - 6, y(share) + 4, `${Math.round(10 * share)}0 %`.replace(/^00/, "0"), "end")]),
    series(measured, "measured"), series(expected, "expected"),
    ...expected.map((one, place) => text(x(one), HEIGHT - 10, ["now", "twice", "4 times"][place], "middle")),
    ...measured.slice(0, 1).map((one) => text(x(one), HEIGHT - 10, count(Math.round(one.shots), "picture"), "middle")));
}

function text(x, y, words, anchor) {
  const element = makeSvg("text", { x, y, "text-anchor": anchor });
  element.textContent = words;
  return element;
}
