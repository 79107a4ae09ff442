// Pictures made smaller in the browser: faster to send, and no place or time of the photograph leaves.

const SENT = 1024; // longer side of what is sent
const SUGGESTED = 320; // of what is only compared with others
const SHOWN = 192; // of a thumbnail

/** The picture with its longer side at most `side`; as it is if it is small, or if the browser cannot read it. */
async function shrunk(blob, side) {
  try {
    const picture = await createImageBitmap(blob);
    const scale = side / Math.max(picture.width, picture.height);
    if (scale >= 1) return blob;
    const canvas = Object.assign(document.createElement("canvas"), { width: Math.round(picture.width * scale), height: Math.round(picture.height * scale) });
    canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
    picture.close();
    return await new Promise((done) => canvas.toBlob((made) => done(made ?? blob), "image/jpeg", 0.92));
  } catch {
    return blob; // the service will say what is wrong with it
  }
}

export const toSend = (blob) => shrunk(blob, SENT);
export const toCompare = (blob) => shrunk(blob, SUGGESTED);
export const thumbnail = async (blob) => URL.createObjectURL(await shrunk(blob, SHOWN));
