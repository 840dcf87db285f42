import http from 'node:http';
import type { SandboxPlace, SandboxSpec } from '../../runtime/driver.ts';
import type { Cgroups } from '../../runtime/oci/cgroups.ts';

const samplesPerWindow = 60;
const windows = 5;
const freezeSeconds = 10;

/** Measures how long a sandbox's agent takes to answer while another sandbox attacks. */
export class Neighbour {
  readonly #agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  readonly #place: SandboxPlace;
  readonly #spec: SandboxSpec;

  constructor(place: SandboxPlace, spec: SandboxSpec) {
    this.#place = place;
    this.#spec = spec;
  }

  /** The duration of one `Filesystem.Stat` in milliseconds. */
  async stat(): Promise<number> {
    const started = performance.now();
    const status = await new Promise<number>((resolve, reject) => {
      const request = http.request(
        {
          host: this.#place.address,
          port: this.#place.agentPort,
          path: '/sandboxagent.Filesystem/Stat',
          method: 'POST',
          agent: this.#agent,
          headers: {
            'content-type': 'application/json',
            'x-access-token': this.#spec.accessToken!,
            authorization: 'Bearer root',
          },
        },
        (reply) => reply.resume().once('end', () => resolve(reply.statusCode!)),
      );
      request.once('error', reject);
      request.end('{"path":"/etc/passwd"}');
    });
    if (status !== 200) throw new Error(`the neighbour answered ${status}`);
    return performance.now() - started;
  }

  /**
   * The medians of many answers while the attacker is frozen and while it runs. The two alternate, so that other load
   * of the machine affects both. The attacker's agent is not involved: it may not answer any more.
   */
  async besides(cgroups: Cgroups, attacker: SandboxSpec): Promise<{ quietMs: number; attackedMs: number }> {
    const quiet: number[] = [];
    const attacked: number[] = [];
    for (let window = 0; window < windows; window += 1) {
      if (!(await cgroups.freezer.freeze(attacker.sandboxId, freezeSeconds)))
        throw new Error('the attacker cannot be frozen');
      await this.#sample(quiet);
      await cgroups.freezer.thaw(attacker.sandboxId);
      await this.#sample(attacked);
    }
    return { quietMs: middle(quiet), attackedMs: middle(attacked) };
  }

  async #sample(into: number[]): Promise<void> {
    // The first answers of a window may still be affected by the change.
    for (let at = -10; at < samplesPerWindow; at += 1) {
      const took = await this.stat();
      if (at >= 0) into.push(took);
    }
  }

  close(): void {
    this.#agent.destroy();
  }
}

const middle = (values: number[]) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)]!;
