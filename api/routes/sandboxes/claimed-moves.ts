import type { DirectMoves } from '../../../db/sandboxes/direct-moves.ts';
import type { Sandbox } from '../../../db/sandboxes/sandbox.entity.ts';
import type { SandboxNews } from './sandbox-news.ts';

const before = { pause: 'running', resume: 'paused' } as const;
const wanted = { pause: 'paused', resume: 'running' } as const;

/** Pauses and resumes of stable sandboxes: this process claims them, and the host makes them without the workflow. */
export class ClaimedMoves {
  readonly #moves: DirectMoves;
  readonly #news: SandboxNews;
  readonly #currentRequestId: () => string | undefined;

  constructor(deps: { moves: DirectMoves; news: SandboxNews; currentRequestId: () => string | undefined }) {
    this.#moves = deps.moves;
    this.#news = deps.news;
    this.#currentRequestId = deps.currentRequestId;
  }

  /**
   * @returns `made`: the row says so. `left`: the move is claimed and the workflow has to finish or undo it.
   * `not claimed`: nothing was changed
   * @throws {AppError} the resume is not admitted; nothing was changed
   */
  async make(work: 'pause' | 'resume', sandbox: Sandbox): Promise<'made' | 'left' | 'not claimed'> {
    const news = this.#news.expect(sandbox.sandboxId);
    if (!news) return 'not claimed';
    try {
      const requestId = this.#currentRequestId() ?? null;
      const run = await (work === 'pause'
        ? this.#moves.claimPause(sandbox, requestId)
        : this.#moves.claimResume(sandbox, requestId));
      if (run === null) return 'not claimed';
      return (await news.result(run, before[work]))?.status === wanted[work] ? 'made' : 'left';
    } finally {
      news.end();
    }
  }
}
