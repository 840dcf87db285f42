/** A count under a key of one kind of limit: `[kind, key, count]`. */
export type Count = [kind: string, key: string, count: number];

/** From a serving process to the primary. */
export type FromProcess =
  /** It accepts connections. */
  | { kind: 'ready' }
  /** A sign of life: its event loop runs. */
  | { kind: 'alive' }
  /** It accepts no more connections and exits once its requests have ended. */
  | { kind: 'leaving' }
  /** Its present counts under the keys that changed. */
  | { kind: 'counts'; counts: Count[] }
  /** Its metrics, as prom-client gives them as JSON; the reply to `collect`. */
  | { kind: 'metrics'; collection: number; metrics: object[] };

/** From the primary to a serving process. */
export type ToProcess =
  /**
   * The first message; it carries the handle of the listening socket. `ticketKeys`: base64, so that every process
   * resumes the TLS sessions of the others.
   */
  | { kind: 'welcome'; ticketKeys: string }
  /** The sum of the other processes' counts under the keys that changed. */
  | { kind: 'others'; counts: Count[] }
  /** Send your metrics. */
  | { kind: 'collect'; collection: number }
  /** Drain and exit. */
  | { kind: 'stop' };
