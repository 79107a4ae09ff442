// The HTTP interface of the service, as functions. Every error is an Error with one line to show.

import { askForToken } from "./token.js";

const SIDE = 1024; // pictures are scaled to this before they are sent: faster, and no place or time of the photograph leaves

async function call(path, options = {}) {
  let response;
  try {
    response = await fetch(`/api${path}`, options);
  } catch {
    throw new Error("The service does not answer. Is dmn4 serve still running?");
  }
  if (response.status === 401) {
    await askForToken();
    return call(path, options);
  }
  if (response.status === 204) return null;
  const answer = await response.json().catch(() => ({ error: `The service answered ${response.status}.` }));
  if (!response.ok) throw new Error(answer.error);
  return answer;
}

async function form(fields) {
  const data = new FormData();
  for (const [name, value] of fields) data.append(name, value instanceof Blob ? await shrink(value) : value, ...(value instanceof Blob ? ["picture"] : []));
  return { method: "POST", body: data };
}

/** The picture with its longer side at most SIDE; as it is if it is small, or if the browser cannot read it. */
async function shrink(blob) {
  try {
    const picture = await createImageBitmap(blob);
    const scale = SIDE / Math.max(picture.width, picture.height);
    if (scale >= 1) return blob;
    const canvas = Object.assign(document.createElement("canvas"),
      { width: Math.round(picture.width * scale), height: Math.round(picture.height * scale) });
    canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
    picture.close();
    return await new Promise((done) => canvas.toBlob((made) => done(made ?? blob), "image/jpeg", 0.92));
  } catch {
    return blob; // the service will say what is wrong with it
  }
}

const labelled = (shots) => shots.flatMap(({ label, picture }) => [["labels", label], ["pictures", picture]]);

export const about = () => call("/about");
export const get = (id) => call(`/classifiers/${id}`);
export const remove = (id) => call(`/classifiers/${id}`, { method: "DELETE" });
export const create = async (shots) => call("/classifiers?wait=false", await form(labelled(shots)));
export const add = async (id, shots) => call(`/classifiers/${id}/shots`, await form(labelled(shots)));
export const forget = (id, label) => call(`/classifiers/${id}/classes/${encodeURIComponent(label)}`, { method: "DELETE" });
export const explain = async (id, picture) => call(`/classifiers/${id}/explanations`, await form([["picture", picture]]));
export const fruit = () => call("/samples/fruit?wait=false", { method: "POST" });
export const fruitQuestions = () => call("/samples/fruit");
export const modelPath = (id) => `/api/classifiers/${id}/model`;
export const shotPath = (classifier, number) => `/api/classifiers/${classifier.id}/shots/${number}?revision=${classifier.revision}`;

export function openModel(file) {
  const data = new FormData();
  data.append("model", file, "model");
  return call("/models", { method: "POST", body: data });
}

/** Ask again until the classifier has learnt; `tell` hears how far it is. */
export async function learnt(classifier, tell) {
  while (classifier.state === "learning") {
    tell(classifier);
    await new Promise((done) => setTimeout(done, 150));
    classifier = await get(classifier.id);
  }
  if (classifier.state === "failed") {
    await remove(classifier.id).catch(() => {});
    throw new Error(classifier.error);
  }
  return classifier;
}
