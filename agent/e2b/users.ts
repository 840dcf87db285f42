import fs from 'node:fs';
import path from 'node:path';
import { Code } from '@connectrpc/connect';
import { type Account, findAccount, readNamesFile } from '../process/identity.ts';
import { ConnectError } from '../rpc/connect-error.ts';

/** The user of requests that name none. */
const defaultName = 'user';
const firstId = 1000;
const lastId = 59_999;

/**
 * The account of a request.
 * @param name undefined or empty: the account `user`, which is made if the image has none
 * @returns root if the user cannot be made
 * @throws {ConnectError} `unauthenticated` for an unknown name
 */
export function findUser(name: string | undefined): Account {
  const wanted = name || defaultName;
  const found = findAccount(wanted) ?? (wanted === defaultName ? makeDefaultUser() : undefined);
  if (found) return found;
  // An image without accounts has no line for root either.
  if (wanted === 'root' || wanted === defaultName) {
    return { name: '0', uid: 0, gid: 0, home: fs.existsSync('/root') ? '/root' : '/' };
  }
  throw new ConnectError(`unknown user ${wanted}`, Code.Unauthenticated);
}

let cannotBeMade = false;

function makeDefaultUser(): Account | undefined {
  if (cannotBeMade) return undefined;
  try {
    const id = freeId();
    const home = `/home/${defaultName}`;
    const shell = fs.existsSync('/bin/bash') ? '/bin/bash' : '/bin/sh';
    fs.mkdirSync(home, { recursive: true });
    fs.chownSync(home, id, id);
    const rules = `/etc/sudoers.d/${defaultName}`;
    if (fs.existsSync(path.dirname(rules)) && !fs.existsSync(rules)) {
      fs.writeFileSync(rules, `${defaultName} ALL=(ALL) NOPASSWD: ALL\n`, { mode: 0o440 });
    }
    append('/etc/group', `${defaultName}:x:${id}:`);
    // Without its line, sudo refuses an account.
    if (fs.existsSync('/etc/shadow')) append('/etc/shadow', `${defaultName}:!:::::::`);
    append('/etc/passwd', `${defaultName}:x:${id}:${id}::${home}:${shell}`);
    return findAccount(defaultName);
  } catch (error) {
    cannotBeMade = true;
    console.error(`agent: the user "${defaultName}" cannot be made, so its requests use root:`, error);
    return undefined;
  }
}

/** The first number that is neither a user's nor a group's. */
function freeId(): number {
  const taken = new Set<string | undefined>();
  for (const file of ['/etc/passwd', '/etc/group']) {
    for (const line of readNamesFile(file).split('\n')) taken.add(line.split(':')[2]);
  }
  for (let id = firstId; id <= lastId; id++) if (!taken.has(String(id))) return id;
  throw new Error('no number is free for a user');
}

/** Adds a line in one write, so that an end of the agent in between loses no other line. */
function append(file: string, line: string): void {
  const text = readNamesFile(file);
  fs.appendFileSync(file, `${text === '' || text.endsWith('\n') ? '' : '\n'}${line}\n`);
}
