/** A count for a key of one kind of limit: `[kind, key, count]`. */
export type Count = [kind: string, key: string, count: number];

/** From a serving process to the primary. */
export type FromProcess =
  /** The process accepts connections. */
  | { kind: 'ready' }
  /** A heartbeat: the event loop of the process runs. */
  | { kind: 'alive' }
  /** The process accepts no more connections, and exits when its requests have ended. */
  | { kind: 'leaving' }
  /** The current counts of the process for changed keys. */
  | { kind: 'counts'; counts: Count[] }
  /** The metrics of the process in prom-client's JSON form, the reply to `collect`. */
  | { kind: 'metrics'; collection: number; metrics: object[] };

/** From the primary to a serving process. */
export type ToProcess =
  /**
   * The first message, with the handle of the listening socket. `ticketKeys`: base64. They are shared so that each
   * process can resume the TLS sessions of the others.
   */
  | { kind: 'welcome'; ticketKeys: string }
  /** The sums of the other processes' counts for changed keys. */
  | { kind: 'others'; counts: Count[] }
  /** Asks for metrics. */
  | { kind: 'collect'; collection: number }
  /** Asks the process to drain and exit. */
  | { kind: 'stop' };
