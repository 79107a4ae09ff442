// Files that were dropped, chosen or pasted, with the folders they lie in.

const PICTURE = /\.(jpe?g|png|webp|bmp|gif|tiff?)$/i;

/** A file and its path, "photos/lemon/1.jpg"; without a folder the path is its name. */
const found = (file, path = file.webkitRelativePath || file.name) => ({ file, path });

const inOrder = (one, other) => one.path.localeCompare(other.path, "en", { numeric: true });

/** Let an element take files: dropped on it, with folders, or chosen in `inputs`. `take` gets [{file, path}, ...]. */
export function takeFiles(target, inputs, take) {
  const over = (event) => { event.preventDefault(); target.classList.add("over"); };
  target.addEventListener("dragenter", over);
  target.addEventListener("dragover", over);
  target.addEventListener("dragleave", (event) => { if (!target.contains(event.relatedTarget)) target.classList.remove("over"); });
  target.addEventListener("drop", async (event) => {
    event.preventDefault();
    event.stopPropagation();
    target.classList.remove("over");
    const files = await dropped(event.dataTransfer);
    if (files.length) take(files);
  });
  for (const input of inputs) {
    input.addEventListener("change", () => {
      const files = [...input.files].map((file) => found(file)).filter(({ file, path }) => path === file.name || PICTURE.test(path)).sort(inOrder);
      input.value = "";
      if (files.length) take(files);
    });
  }
}

/** What was dropped: files as they are, and the pictures of folders at any depth. */
export async function dropped(data) {
  const entries = [...data.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean); // before anything is awaited
  const plain = [...data.files].map((file) => found(file));
  if (!entries.some((entry) => entry.isDirectory)) return plain;
  return (await Promise.all(entries.map((entry) => within(entry, "")))).flat().sort(inOrder);
}

async function within(entry, folder) {
  const path = folder + entry.name;
  if (entry.isFile) return folder && !PICTURE.test(path) ? [] : [found(await new Promise((done, failed) => entry.file(done, failed)), path)];
  const reader = entry.createReader();
  const inside = [];
  for (;;) { // a reader gives a hundred at a time
    const some = await new Promise((done, failed) => reader.readEntries(done, failed));
    if (!some.length) break;
    inside.push(...some);
  }
  return (await Promise.all(inside.map((one) => within(one, `${path}/`)))).flat();
}

/** Files by the folder that holds them: {lemon: [{file, path}, ...]}; those in no folder under "". */
export function byFolder(files) {
  const folders = new Map();
  for (const one of files) {
    const name = one.path.split("/").at(-2)?.trim().slice(0, 60) ?? "";
    folders.set(name, [...(folders.get(name) ?? []), one]);
  }
  return folders;
}

/** Offer a text as a file. */
export function download(name, text) {
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(new Blob([text], { type: "text/csv" })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
