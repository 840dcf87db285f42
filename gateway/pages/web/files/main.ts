import './page.css';
import { button, element, topBar } from '../shared/elements.ts';
import { PageError, visibleText } from '../shared/page-error.ts';
import { explain, Session } from '../shared/session.ts';
import {
  downloadUrl,
  type Entry,
  findEntry,
  joinPath,
  makeFolder,
  moveEntry,
  parentPath,
  removeEntry,
  upload,
} from './agent-files.ts';
import { FolderTree } from './folder-tree.ts';
import { Viewer } from './viewer.ts';

const { bar, status } = topBar({ href: '/terminal', label: 'Terminal' });
const pathText = element('span', { className: 'path' });
const content = element('div', { className: 'content' });
const viewer = new Viewer(content);
const tree = new FolderTree(
  (entry) => report(choose(entry)),
  (error) => say(explain(error), true),
);
const picker = element('input', { type: 'file', multiple: true, hidden: true });
picker.addEventListener('change', () => {
  const files = [...(picker.files ?? [])];
  picker.value = '';
  attempt(() => uploadAll(files));
});

const back = button('‹ Back', () => leaveFile());
back.className = 'back';
const save = button('Save', () => attempt(saveFile));
const find = button('Find', () => viewer.find());
const download = button('Download', () => attempt(downloadFile));
const rename = button('Rename', () => attempt(renameEntry));
const remove = button('Delete', () => attempt(deleteEntry));
const tools = element(
  'fieldset',
  { className: 'tools' },
  ...[pathText, back, save, find, download, rename, remove],
  button('New file', () => attempt(newFile)),
  button('New folder', () => attempt(newFolder)),
  button('Upload', () => picker.click()),
  button('Refresh', () => attempt(() => tree.refresh(findFolder(chosen)))),
);
const up = button('Up', () => attempt(() => showFolder(parentPath(tree.rootPath))));
const rootText = element('span', { className: 'path' });
const rootTools = element('fieldset', { className: 'tools' }, rootText, up);
const folders = element('nav', { ariaLabel: 'Folders' }, rootTools, tree.list);
const main = element('main', {}, folders, element('section', { ariaLabel: 'File' }, tools, content));
document.body.replaceChildren(bar, main, picker);

let chosen: Entry | null = null;
viewer.onEdit = () => {
  save.disabled = !viewer.isEdited;
};
addEventListener('keydown', (event) => {
  if (event.key.toLowerCase() !== 's' || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
  // Otherwise the browser would save this page.
  event.preventDefault();
  if (viewer.isEdited) attempt(saveFile);
});
addEventListener('beforeunload', (event) => {
  if (viewer.isEdited) event.preventDefault();
});

function say(text: string, isBad = false): void {
  status.textContent = text;
  status.title = text;
  status.classList.toggle('bad', isBad);
}

async function report(work: Promise<void>): Promise<void> {
  try {
    await work;
  } catch (error) {
    if (!(error instanceof PageError)) throw error;
    say(explain(error), true);
  }
}

/** True during a change, because changes run one at a time. The buttons are disabled meanwhile. */
let isBusy = false;
async function attempt(work: () => Promise<void>): Promise<void> {
  if (isBusy) return say('Try again when the change before has ended', true);
  const focused = document.activeElement;
  setBusy(true);
  try {
    await report(work());
  } finally {
    setBusy(false);
    // A disabled button loses the focus, so it gets the focus back.
    if (document.activeElement === document.body && focused instanceof HTMLElement) focused.focus();
  }
}

function setBusy(value: boolean): void {
  isBusy = value;
  tools.disabled = value;
  rootTools.disabled = value;
}

async function showFolder(path: string): Promise<void> {
  if (!mayLeave()) return;
  show(null);
  rootText.textContent = visibleText(path);
  up.disabled = path === '/';
  await tree.show(path);
}

function findFolder(entry: Entry | null): string {
  if (!entry) return tree.rootPath;
  return entry.kind === 'folder' ? entry.path : parentPath(entry.path);
}

function mayLeave(): boolean {
  return !viewer.isEdited || confirm('Leave the file without saving it?');
}

async function choose(entry: Entry): Promise<void> {
  if (!mayLeave()) return;
  show(entry);
  say('');
  if (entry.kind === 'folder') await tree.toggle(entry.path);
  else await openFile(entry);
}

async function openFile(entry: Entry): Promise<void> {
  await viewer.open(entry);
  if (chosen?.path === entry.path) find.disabled = !viewer.isText;
}

/** In a narrow window, the file gives its place to the folders. */
function leaveFile(): void {
  if (mayLeave()) show(null);
}

function show(entry: Entry | null): void {
  chosen = entry;
  tree.mark(entry?.path ?? null);
  pathText.textContent = entry ? visibleText(entry.path) : '';
  viewer.close();
  main.classList.toggle('showsFile', entry !== null && entry.kind !== 'folder');
  save.disabled = true;
  find.disabled = true;
  download.disabled = entry?.kind !== 'file';
  rename.disabled = !entry;
  remove.disabled = !entry;
}

async function saveFile(): Promise<void> {
  if (!chosen) return;
  const { path } = chosen;
  const before = await findEntry(path);
  if (
    before?.version !== chosen.version &&
    !confirm('The file has changed in the sandbox since it was opened. Replace it?')
  )
    return;
  const bytes = viewer.edited();
  await upload(path, new Blob([bytes]), () => undefined);
  const saved = await findEntry(path);
  // Another file may be open now.
  if (saved && chosen?.path === path) {
    chosen = saved;
    viewer.saved(bytes);
  }
  say(`Saved, ${bytes.length} bytes`);
}

/** The browser writes the file while it arrives, so the page does not hold it in memory. */
async function downloadFile(): Promise<void> {
  if (chosen?.kind !== 'file') return;
  element('a', { href: downloadUrl(chosen.path), download: chosen.name }).click();
}

async function renameEntry(): Promise<void> {
  if (!chosen) return;
  const path = prompt('New path', chosen.path);
  if (!path || path === chosen.path || !mayLeave()) return;
  if ((await findEntry(path)) && !confirm(`${visibleText(path)} is there already. Replace it?`)) return;
  const source = chosen.path;
  await moveEntry(source, path);
  show(null);
  await tree.refresh(parentPath(source));
  await tree.refresh(parentPath(path));
  say(`Moved to ${visibleText(path)}`);
}

async function deleteEntry(): Promise<void> {
  if (!chosen) return;
  const { path, kind } = chosen;
  const what = kind === 'folder' ? `${visibleText(path)} and everything in it` : visibleText(path);
  if (!confirm(`Delete ${what}?`)) return;
  await removeEntry(path);
  show(null);
  await tree.refresh(parentPath(path));
  say(`Deleted ${visibleText(path)}`);
}

async function newFile(): Promise<void> {
  const path = askName('Name of the file');
  if (!path || !mayLeave()) return;
  if (await findEntry(path)) throw new PageError('already_exists', `${visibleText(path)} is there already`);
  await upload(path, new Blob([]), () => undefined);
  await tree.refresh(parentPath(path));
  const made = await findEntry(path);
  if (!made) return;
  show(made);
  await openFile(made);
}

async function newFolder(): Promise<void> {
  const path = askName('Name of the folder');
  if (!path) return;
  await makeFolder(path);
  await tree.refresh(parentPath(path));
}

function askName(question: string): string | null {
  const folder = findFolder(chosen);
  const name = prompt(`${question} in ${visibleText(folder)}`);
  return name ? joinPath(folder, name) : null;
}

async function uploadAll(files: File[]): Promise<void> {
  const folder = findFolder(chosen);
  for (const [index, file] of files.entries()) {
    const path = joinPath(folder, file.name);
    if ((await findEntry(path)) && !confirm(`${visibleText(path)} is there already. Replace it?`)) continue;
    const nth = files.length > 1 ? ` (${index + 1} of ${files.length})` : '';
    const progress = (part: number) => say(`Uploading ${visibleText(file.name)}${nth}: ${Math.round(part * 100)} %`);
    progress(0);
    await upload(path, file, progress);
    say(`Uploaded ${visibleText(path)}`);
  }
  await tree.refresh(folder);
}

function isDropOfFiles(event: DragEvent): boolean {
  return event.dataTransfer?.types.includes('Files') ?? false;
}
addEventListener('dragover', (event) => {
  if (!isDropOfFiles(event)) return;
  event.preventDefault();
  document.body.classList.add('dropping');
});
addEventListener('dragleave', (event) => {
  if (event.relatedTarget === null) document.body.classList.remove('dropping');
});
addEventListener('drop', (event) => {
  if (!isDropOfFiles(event)) return;
  // Otherwise the browser would open the file in place of this page.
  event.preventDefault();
  document.body.classList.remove('dropping');
  const items = [...(event.dataTransfer?.items ?? [])];
  const files = items.filter((item) => !item.webkitGetAsEntry()?.isDirectory).map((item) => item.getAsFile());
  const found = files.filter((file) => file !== null);
  if (found.length < items.length) say('Folders are not uploaded; drop their files', true);
  if (found.length > 0) attempt(() => uploadAll(found));
});

async function run(): Promise<void> {
  show(null);
  await new Session('/files').open((error) => say(explain(error), true));
  say('');
  // The agent expands `~` to its home folder.
  await showFolder((await findEntry('~'))?.path ?? '/');
}

run().catch((error: unknown) => {
  say(error instanceof PageError ? explain(error) : `This page has failed: ${String(error)}`, true);
});
