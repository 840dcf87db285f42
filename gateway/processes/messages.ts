/** A count under a key of one kind of limit: `[kind, key, count]`. */
export type Count = [kind: string, key: string, count: number];

/** From a serving process to the primary. */
export type FromProcess =
  /** It accepts connections. */
  | { kind: 'ready' }
  /** Its event loop turns. */
  | { kind: 'alive' }
  /** It accepts no more and exits once its requests have ended. */
  | { kind: 'leaving' }
  /** What it counts now, of keys that changed. */
  | { kind: 'counts'; counts: Count[] };

/** From the primary to a serving process. */
export type ToProcess =
  /** The first message; the listening socket's handle comes with it. `ticketKeys`: base64, so that every process resumes the TLS sessions of the others. */
  | { kind: 'welcome'; ticketKeys: string }
  /** What the other processes count together, of keys that changed. */
  | { kind: 'others'; counts: Count[] }
  /** Drain and exit. */
  | { kind: 'stop' };
