import fs from 'node:fs';

/** The name, ids and home of a user in one line of passwd(5). */
export interface Account {
  name: string;
  uid: number;
  gid: number;
  home: string;
}

const passwd = '/etc/passwd';
/** Files of names have some KiB. Programs of the sandbox can replace them. */
const maxNamesBytes = 4 * 1024 * 1024;

/** The text of a file of names, such as `/etc/passwd`. @throws errno; {Error} for a pipe, or one that is too long */
export function readNamesFile(file: string): string {
  const stat = fs.statSync(file);
  // Reading a pipe would block the agent.
  if (!stat.isFile() || stat.size > maxNamesBytes) throw new Error(`${file} is not a file of names`);
  return fs.readFileSync(file, 'utf8');
}

/** The account with that name or number in `/etc/passwd`. Undefined when there is no such account or file. */
export function findAccount(nameOrUid: string | number): Account | undefined {
  let text: string;
  try {
    text = readNamesFile(passwd);
  } catch {
    // An image made from scratch has no accounts.
    return undefined;
  }
  for (const line of text.split('\n')) {
    const [name, , uid, gid, , home] = line.split(':');
    if (!name || !isId(uid) || !isId(gid)) continue;
    if (name === nameOrUid || uid === String(nameOrUid)) {
      return { name, uid: Number(uid), gid: Number(gid), home: home || '/' };
    }
  }
  return undefined;
}

function isId(text: string | undefined): text is string {
  return /^\d{1,10}$/.test(text ?? '') && Number(text) < 2 ** 32;
}

/** The user of a process, and the variables that depend on it. */
export interface Identity {
  uid: number;
  gid: number;
  env: { HOME: string; USER: string; LOGNAME: string };
}

/**
 * Finds a user in the form of an image's: `name`, `uid`, `name:gid` or `uid:gid`.
 * @throws {TypeError} for a name that is not in `/etc/passwd`
 */
export function findIdentity(user: string): Identity {
  const [nameOrUid, group] = user.split(':');
  const account = findAccount(nameOrUid!);
  const uid = account?.uid ?? (isId(nameOrUid) ? Number(nameOrUid) : undefined);
  if (uid === undefined) throw new TypeError(`unknown user ${nameOrUid}`);
  const gid = isId(group) ? Number(group) : (account?.gid ?? 0);
  const name = account?.name ?? String(uid);
  return { uid, gid, env: { HOME: account?.home ?? '/', USER: name, LOGNAME: name } };
}
