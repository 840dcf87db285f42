import { findHostPlace, type HostPlace } from '../../db/hosts/hosts.ts';
import type { Orm } from '../../db/orm.ts';

const keptMs = 2000;

interface Kept {
  place: HostPlace | null;
  untilMs: number;
}

/**
 * The addresses of hosts, read again after two seconds. While they are unreadable, the last known addresses are used: a
 * connection to a host that has moved fails by its certificate.
 */
export class HostPlaces {
  readonly #read: (hostId: string) => Promise<HostPlace | null>;
  readonly #kept = new Map<string, Kept>();
  readonly #reading = new Map<string, Promise<HostPlace | null>>();

  constructor(read: (hostId: string) => Promise<HostPlace | null>) {
    this.#read = read;
  }

  static of(orm: Orm): HostPlaces {
    return new HostPlaces((hostId) => findHostPlace(orm.em, hostId));
  }

  /** Rejects when the address was never read and is unreadable now. */
  find(hostId: string): Promise<HostPlace | null> {
    const kept = this.#kept.get(hostId);
    if (kept && kept.untilMs > performance.now()) return Promise.resolve(kept.place);
    const reading = this.#reading.get(hostId) ?? this.#readAgain(hostId);
    return kept ? reading.catch(() => kept.place) : reading;
  }

  #readAgain(hostId: string): Promise<HostPlace | null> {
    const reading = this.#read(hostId)
      .then((place) => {
        this.#kept.set(hostId, { place, untilMs: performance.now() + keptMs });
        return place;
      })
      .finally(() => this.#reading.delete(hostId));
    this.#reading.set(hostId, reading);
    return reading;
  }
}
