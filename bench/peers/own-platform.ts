import { setTimeout as delay } from 'node:timers/promises';
import { Process } from '../../agent/proto/gen/sandboxagent_pb.js';
import { RunningPlatform } from '../../test/support/running-platform.ts';
import { platformUse } from '../process-groups.ts';
import type { Contender, MadeSandbox } from './contender.ts';

const wanted = { template: 'base', cpu_count: 1, memory_mb: 256, storage_gb: 10, timeout: 3600 };
/** The memory of a member of the pool, generously. */
const memberMb = 80;

/** This platform, as its users reach it: the API, and the agent through the gateway. */
export class OwnPlatform implements Contender {
  readonly name: string;
  readonly #platform: RunningPlatform;
  readonly #pool: number;

  private constructor(platform: RunningPlatform, pool: number) {
    this.name = `this platform, ${pool > 0 ? 'from its pool' : 'without a pool'}`;
    this.#platform = platform;
    this.#pool = pool;
  }

  /** @param pool the number of warm sandboxes. 0: each create is a cold start */
  static async start(pool: number): Promise<OwnPlatform> {
    const platform = new RunningPlatform({
      PLATFORM_WARM_POOL_SIZE: String(pool),
      PLATFORM_WARM_POOL_MAX_SIZE: String(Math.max(1, pool)),
      PLATFORM_WARM_POOL_MEMORY_MB: String(pool * memberMb),
      PLATFORM_RATE_LIMIT_PER_KEY: '0',
    });
    const own = new OwnPlatform(platform, pool);
    try {
      await platform.start();
      await own.settle();
      return own;
    } catch (error) {
      await own.stop();
      throw error;
    }
  }

  async create(): Promise<MadeSandbox> {
    const client = this.#platform.client();
    const sandbox = await client.createSandbox(wanted);
    if (sandbox.status !== 'running') throw new Error(`${sandbox.sandbox_id} is ${sandbox.status}: ${sandbox.reason}`);
    const agent = this.#platform.agent(sandbox);
    return {
      run: async (command, onOutput) => {
        let hadOutput = false;
        const words = { cmd: 'bash', args: ['-c', command] };
        for await (const { event } of agent.client(Process).start({ process: words })) {
          if (hadOutput || event?.event.case !== 'data') continue;
          hadOutput = true;
          onOutput();
        }
      },
      remove: async () => {
        agent.close();
        await client.deleteSandbox(sandbox.sandbox_id);
      },
    };
  }

  /** Until the sandboxes are gone and the pool is full again, so that its refill takes no time from the next measurement. */
  async settle(): Promise<void> {
    const supervisor = this.#platform.findPids('ops/local-stack/start.ts')[0]!;
    const deadline = Date.now() + 300_000;
    const count = () => platformUse(supervisor, this.#platform.dataDir).get('shims')?.processes ?? 0;
    while (count() !== this.#pool) {
      if (Date.now() > deadline) throw new Error(`there are ${count()} shims, not ${this.#pool}`);
      await delay(200);
    }
  }

  async stop(): Promise<void> {
    await this.#platform.stop();
    await this.#platform.hostRemains();
    this.#platform.removeData();
  }
}
