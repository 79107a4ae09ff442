// Small helpers for elements and colours.

export const $ = (id) => document.getElementById(id);

/** An element: make("button", {class: "quiet", onclick}, "text", child, ...). */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  set(element, attributes);
  element.append(...children);
  return element;
}

export function makeSvg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  set(element, attributes);
  element.append(...children);
  return element;
}

function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name.startsWith("--")) element.style.setProperty(name, value);
    else if (value !== false && value !== undefined) element.setAttribute(name, value === true ? "" : value);
  }
}

/** "1 picture", "3 pictures", "2 classes". */
export const count = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : noun.endsWith("s") ? "es" : "s"}`;

/** The page brought to a place, without a ride for those who do not want one. */
export const bringUp = (element) => element.scrollIntoView({ behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth", block: "start" });

/** A labelled bar: share of the full length 0..1. */
export function bar(label, share, text, paint, strong) {
  return make("div", { role: "listitem", class: strong ? "bar strong" : "bar", "--colour": paint, "--share": `${100 * share}%` },
    make("span", { class: "bar-label", title: label }, label), make("span", { class: "bar-track", "aria-hidden": "true" }, make("span", { class: "bar-fill" })), make("span", { class: "bar-text" }, text));
}

/** Many buttons as one stop of the Tab key: the arrow keys move among those that `selector` names. */
export function roam(holder, selector) {
  const all = () => [...holder.querySelectorAll(selector)];
  holder.addEventListener("focusin", (event) => {
    if (event.target.matches(selector)) for (const one of all()) one.tabIndex = one === event.target ? 0 : -1;
  });
  holder.addEventListener("keydown", (event) => {
    const places = all();
    const step = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1, Home: -places.length, End: places.length }[event.key];
    const now = places.indexOf(document.activeElement);
    if (!step || now < 0) return;
    event.preventDefault();
    places[Math.max(0, Math.min(places.length - 1, now + step))].focus();
  });
}

// Twenty colours that can be told apart on light and on dark; the first are Okabe and Ito's, for colour-blind readers.
const COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#8a63b8", "#7d7d7d", "#b43060", "#546c00",
  "#78c03c", "#a890fc", "#a8a890", "#9c8400", "#905424", "#fc9084", "#5484f0", "#30c0a8", "#00786c", "#fc84d8"];
export const colour = (number) => COLOURS[number % COLOURS.length];
