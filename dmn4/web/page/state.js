// What the page knows, and telling its parts that it changed.

export const state = {
  classifier: null, // as the service describes it; null before learning
  drafts: [], // classes whose pictures are still in the browser
  items: [], // pictures that were asked about
  ruledOut: [], // what each picture that was ruled out is not: a class, or none of these
  suspects: [], // labels that look wrong, of this revision
  limits: { pictures: 200, request_bytes: 32_000_000 },
  busy: false,
};

/** What an answer is of: a classifier as it was after a change. */
export const version = () => (state.classifier ? `${state.classifier.id}@${state.classifier.revision}` : "");
export const labels = () => (state.classifier?.classes ?? []).map((one) => one.label);

export const NONE = "none of these";
/** What a person said of a picture, in words: {label}, {label: null, not: a class}, or {label: null} for none of these. */
export const inWords = ({ label, not }) => label ?? (not ? `not ${not}` : NONE);

const listeners = [];
let frame = 0;

/** Call `draw` in the next frame after anything changed. */
export const onChange = (draw) => listeners.push(draw);

export function changed() {
  frame ||= requestAnimationFrame(() => { frame = 0; for (const draw of listeners) draw(); });
}
