import { callAgent } from '../shared/agent.ts';
import { PageError } from '../shared/page-error.ts';
import { ask, readBytes, toFields, toPageError } from '../shared/replies.ts';

const agent = '/files/agent';
const maxListBytes = 8 * 1024 * 1024;
const maxPathLength = 8192;

/** The checked description of an entry by the sandbox. */
export interface Entry {
  name: string;
  path: string;
  kind: 'file' | 'folder' | 'other';
  bytes: number;
  /** Changes when the content changes. */
  version: string;
}

/** The entries of a folder, folders first, by name. @throws {PageError} */
export async function listFolder(path: string): Promise<Entry[]> {
  const { entries } = await callAgent(`${agent}/Filesystem/ListDir`, { path, depth: 1 }, maxListBytes);
  if (!Array.isArray(entries)) throw new PageError('bad_reply', 'The agent sent no list');
  const known = entries.map(parseEntry).filter((entry) => entry !== null);
  const rank = { folder: 0, file: 1, other: 1 };
  return known.sort((a, b) => rank[a.kind] - rank[b.kind] || (a.name < b.name ? -1 : 1));
}

/** Null: the entry does not exist. @throws {PageError} */
export async function findEntry(path: string): Promise<Entry | null> {
  try {
    return parseEntry((await callAgent(`${agent}/Filesystem/Stat`, { path })).entry);
  } catch (error) {
    if (error instanceof PageError && error.code === 'not_found') return null;
    throw error;
  }
}

export async function makeFolder(path: string): Promise<void> {
  await callAgent(`${agent}/Filesystem/MakeDir`, { path });
}

export async function moveEntry(source: string, destination: string): Promise<void> {
  await callAgent(`${agent}/Filesystem/Move`, { source, destination });
}

export async function removeEntry(path: string): Promise<void> {
  await callAgent(`${agent}/Filesystem/Remove`, { path });
}

/** @throws {PageError} `too_large` */
export async function readFile(path: string, maxBytes: number): Promise<Uint8Array<ArrayBuffer>> {
  return readBytes(await ask(downloadUrl(path), { method: 'GET' }), maxBytes);
}

/** Sends a file and reports its progress from 0 to 1. @throws {PageError} */
export function upload(path: string, content: Blob, onProgress: (part: number) => void): Promise<void> {
  const form = new FormData();
  form.append('path', path);
  form.append('file', content, 'file');
  // `fetch` does not report the progress of an upload.
  const request = new XMLHttpRequest();
  return new Promise((resolve, reject) => {
    request.upload.onprogress = ({ loaded, total }) => onProgress(total > 0 ? loaded / total : 1);
    request.onerror = () => reject(new PageError('disconnected', 'The connection broke off'));
    request.onload = () => {
      if (request.status === 200) resolve();
      else reject(toPageError(request.status, parseJson(request.responseText)));
    };
    request.open('POST', `${agent}/upload`);
    request.send(form);
  });
}

/** The whole path is encoded as one segment, so that dots and slashes in it have no meaning on the way. */
export function downloadUrl(path: string): string {
  return `${agent}/download/${encodeURIComponent(path.toWellFormed())}`;
}

export function joinPath(folder: string, name: string): string {
  return folder === '/' ? `/${name}` : `${folder}/${name}`;
}

export function parentPath(path: string): string {
  return path.slice(0, path.lastIndexOf('/')) || '/';
}

function parseEntry(value: unknown): Entry | null {
  const { name, path, type, size, modifiedTime } = toFields(value);
  if (typeof name !== 'string' || typeof path !== 'string' || !path.startsWith('/') || path.length > maxPathLength) {
    return null;
  }
  const kind = type === 'FILE_TYPE_DIRECTORY' ? 'folder' : type === 'FILE_TYPE_FILE' ? 'file' : 'other';
  const bytes = Number(size);
  return {
    name,
    path,
    kind,
    bytes: Number.isSafeInteger(bytes) && bytes >= 0 ? bytes : 0,
    version: `${size} ${modifiedTime}`,
  };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
