// Asking for the token once: the service keeps it in a cookie that scripts cannot read.

import { make } from "./dom.js";

let asking = null;

/** Ask until a token is let in; whoever asks meanwhile waits for the same answer. */
export const askForToken = () => (asking ??= ask().finally(() => { asking = null; }));

async function ask() {
  const input = make("input", { type: "password", id: "token", autocomplete: "current-password", required: "" });
  const problem = make("p", { role: "alert" });
  const form = make("form", { method: "dialog" }, make("label", { for: "token" }, "Your token for this service"), input, problem,
    make("button", { class: "main" }, "Enter"));
  const dialog = make("dialog", { "aria-label": "Your token for this service" }, form);
  document.body.append(dialog);
  dialog.addEventListener("cancel", (event) => event.preventDefault());
  dialog.showModal();
  try {
    for (;;) {
      await new Promise((done) => form.addEventListener("submit", (event) => { event.preventDefault(); done(); }, { once: true }));
      if (await begin(input.value.trim())) return;
      problem.textContent = "This token is unknown, or it was revoked.";
      input.select();
    }
  } finally {
    dialog.remove();
  }
}

async function begin(token) {
  if (!/^[\w.-]+$/.test(token)) return false; // a header holds nothing else
  return (await fetch("/api/session", { method: "POST", headers: { Authorization: `Bearer ${token}` } })).ok;
}
