import { findAccount } from '../boot/environment.ts';

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
  const uid = account?.uid ?? (/^\d{1,9}$/.test(nameOrUid!) ? Number(nameOrUid) : undefined);
  if (uid === undefined) throw new TypeError(`unknown user ${nameOrUid}`);
  const gid = group !== undefined && /^\d{1,9}$/.test(group) ? Number(group) : (account?.gid ?? 0);
  const name = account?.name ?? String(uid);
  return { uid, gid, env: { HOME: account?.home ?? '/', USER: name, LOGNAME: name } };
}
