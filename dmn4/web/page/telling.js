// Telling what goes on: progress, errors in one line; and work that is done one piece after the other.

import { $ } from "./dom.js";
import { changed, state } from "./state.js";

export function complain(error) {
  $("alert").hidden = false;
  $("alert").querySelector("p").textContent = error.message;
}

let fading = 0;

/** Say for a few seconds what was done. */
export function say(text) {
  $("done").textContent = text;
  clearTimeout(fading);
  fading = setTimeout(() => { $("done").textContent = ""; }, 8000);
}

export const calm = () => { $("alert").hidden = true; };

let queue = Promise.resolve();

/** Run a piece of work once what came before is done; an error becomes one line. Whether it worked. */
export const quietly = (work) => (queue = queue.then(async () => {
  try {
    await work();
    return true;
  } catch (error) {
    complain(error);
    return false;
  }
}));

/** The same with everybody watching: progress is shown, and buttons wait. */
export const busily = (text, work) => quietly(async () => {
  calm();
  state.busy = true;
  document.body.classList.add("busy");
  changed();
  progress(text);
  try {
    await work();
  } finally {
    state.busy = false;
    document.body.classList.remove("busy");
    $("progress").hidden = true;
    changed();
  }
});

export function progress(text, done, total) {
  $("status").textContent = text;
  $("progress").hidden = false;
  if (total && done) Object.assign($("progress"), { max: total, value: done });
  else $("progress").removeAttribute("value");
}

export const learning = ({ done, total }) => progress(done ? `Looking at picture ${Math.min(done + 1, total)} of ${total}` : "Starting to learn", done, total);
