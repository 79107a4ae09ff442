// Small helpers for elements, files and colours.

export const $ = (id) => document.getElementById(id);

/** An element: make("button", {class: "quiet", onclick}, "text", child, ...). */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  set(element, attributes);
  element.append(...children);
  return element;
}

export function makeSvg(tag, attributes = {}) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  set(element, attributes);
  return element;
}

function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name.startsWith("--")) element.style.setProperty(name, value);
    else if (value !== false && value !== undefined) element.setAttribute(name, value === true ? "" : value);
  }
}

/** Let an element take files: dropped on it, or chosen in `input`. */
export function takeFiles(target, input, take) {
  const over = (event) => { event.preventDefault(); target.classList.add("over"); };
  target.addEventListener("dragenter", over);
  target.addEventListener("dragover", over);
  target.addEventListener("dragleave", (event) => { if (!target.contains(event.relatedTarget)) target.classList.remove("over"); });
  target.addEventListener("drop", (event) => {
    event.preventDefault();
    target.classList.remove("over");
    if (event.dataTransfer.files.length) take([...event.dataTransfer.files]);
  });
  input.addEventListener("change", () => { const files = [...input.files]; input.value = ""; if (files.length) take(files); });
}

// Okabe and Ito's colours, told apart by colour-blind readers too; yellow left out because lines are thin.
const COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#8a63b8", "#7d7d7d"];
export const colour = (number) => COLOURS[number % COLOURS.length];

/** A probability in words; a few pictures never make anything certain. */
export const percent = (share) => (share > 0.995 ? "> 99 %" : share < 0.005 ? "< 1 %" : `${Math.round(100 * share)} %`);
