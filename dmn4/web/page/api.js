// The HTTP interface of the service, as functions. Every error is an Error with one line to show.

import { toCompare, toSend } from "./shrink.js";
import { askForToken } from "./token.js";

const PATIENCE = 30; // times that a busy service is asked again

async function call(path, options = {}, patience = PATIENCE) {
  let response;
  try {
    response = await fetch(`/api${path}`, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The service does not answer. Is dmn4 serve still running?");
  }
  if (response.status === 401) {
    await askForToken();
    return call(path, options, patience);
  }
  if ([429, 503].includes(response.status) && patience) {
    await new Promise((done) => setTimeout(done, 1000 * (Number(response.headers.get("Retry-After")) || 1)));
    return call(path, options, patience - 1);
  }
  if (response.status === 204) return null;
  const answer = await response.json().catch(() => ({ error: `The service answered ${response.status}.` }));
  if (!response.ok) throw new Error(answer.error);
  return answer;
}

function form(fields) {
  const data = new FormData();
  for (const [name, value] of fields) data.append(name, value, ...(value instanceof Blob ? ["picture"] : []));
  return { method: "POST", body: data };
}

const labelled = (shots) => shots.flatMap(({ label, picture }) => [["labels", label], ["pictures", picture]]);
const at = (id, rest = "") => `/classifiers/${id}${rest}`;

export const about = () => call("/about");
export const mine = () => call("/classifiers");
export const get = (id) => call(at(id));
export const remove = (id) => call(at(id), { method: "DELETE" });
export const create = (shots) => call("/classifiers?wait=false", form(labelled(shots)));
export const add = (id, shots) => call(at(id, "/shots"), form(labelled(shots)));
export const ruleOut = (id, shots) => call(at(id, "/ruled-out"), form(labelled(shots)));
export const ruledOut = (id) => call(at(id, "/ruled-out"));
export const takeBack = ({ id, revision }, number) => call(at(id, `/ruled-out/${number}?revision=${revision}`), { method: "DELETE" });
export const ruledOutPath = ({ id, revision }, number) => `/api/classifiers/${id}/ruled-out/${number}?revision=${revision}`;
export const forget = (id, label) => call(at(id, `/classes/${encodeURIComponent(label)}`), { method: "DELETE" });
export const relabel = ({ id, revision }, number, label) => call(at(id, `/shots/${number}?revision=${revision}`), { ...form([["label", label]]), method: "PUT" });
export const removeShot = ({ id, revision }, number) => call(at(id, `/shots/${number}?revision=${revision}`), { method: "DELETE" });
export const goBack = (id, revision) => call(at(id, `/revisions/${revision}`), { method: "POST" });
export const predict = async (id, picture) => call(at(id, "/predictions"), form([["picture", await toSend(picture)]]));
export const explain = async (id, picture, signal) => call(at(id, "/explanations"), { ...form([["picture", await toSend(picture)]]), signal });
export const suspects = (id) => call(at(id, "/suspects"));
export const curve = (id) => call(at(id, "/curve"));
export const fruit = () => call("/samples/fruit?wait=false", { method: "POST" });
export const fruitQuestions = () => call("/samples/fruit");
export const leave = () => call("/session", { method: "DELETE" });
export const modelPath = (id) => `/api/classifiers/${id}/model`;

/** The address of a picture learnt from; it stays as long as the picture keeps its number, so that it is fetched once. */
export const shotPath = (classifier, number) => `/api/classifiers/${classifier.id}/shots/${number}?revision=${classifier.numbered ?? classifier.revision}`;

/** Places, among these pictures, of those whose labels would help most. */
export async function suggest(id, pictures, most) {
  const small = await Promise.all(pictures.map(toCompare));
  return call(at(id, "/suggestions"), form([["count", most], ...small.map((picture) => ["pictures", picture])]));
}

/** Shots {label, picture} in portions that one request may hold, made small; classes take turns, so that the first holds several. */
export async function* portions(shots, limits) {
  const turns = new Map();
  const turn = ({ label }) => turns.set(label, (turns.get(label) ?? 0) + 1).get(label);
  const inTurn = shots.map((shot) => [turn(shot), shot]).sort(([one], [other]) => one - other);
  let [portion, bytes] = [[], 0];
  for (const [, { label, picture }] of inTurn) {
    const small = await toSend(picture);
    if (portion.length && (portion.length >= limits.pictures || bytes + small.size > 0.9 * limits.request_bytes)) {
      yield portion;
      [portion, bytes] = [[], 0];
    }
    portion.push({ label, picture: small });
    bytes += small.size;
  }
  if (portion.length) yield portion;
}

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
