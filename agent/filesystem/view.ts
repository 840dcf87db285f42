import type { AgentCall } from '../rpc/service.ts';
import type { Entry } from './entry.ts';

/** The owner of files and folders. */
export interface Owner {
  uid: number;
  gid: number;
}

/** What differs between the callers of the file services. */
export interface FileView {
  /** Relative paths and `~` start here. */
  home: string;
  /** The owner of what a call makes. Undefined: the agent's own user. */
  owner?: Owner;
  /** Adds what this caller's entries have besides. */
  complete?(entry: Entry): Entry;
}

/** The view of a call. @throws {ConnectError} `unauthenticated` for an unknown user */
export type ViewOf = (call: AgentCall) => FileView;
