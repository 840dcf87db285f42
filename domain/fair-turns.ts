/**
 * Runs pieces of work, at most so many in one turn of the event loop, and one of each client in rotation: what one
 * client wants at once holds up neither other clients nor what else the process does.
 */
export class FairTurns {
  readonly #perTurn: number;
  /** Work that waits, by client. The client whose turn is next is first. */
  readonly #waiting = new Map<string, (() => void)[]>();
  #isScheduled = false;
  #leftInTurn: number;

  constructor(perTurn: number) {
    this.#perTurn = perTurn;
    this.#leftInTurn = perTurn;
  }

  /** Runs `task` now if this turn has room for it, else in a later one. It must not throw. */
  run(client: string, task: () => void): void {
    this.#schedule();
    if (this.#leftInTurn > 0) {
      this.#leftInTurn--;
      task();
      return;
    }
    const tasks = this.#waiting.get(client);
    if (tasks) tasks.push(task);
    else this.#waiting.set(client, [task]);
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => this.#turn());
  }

  #turn(): void {
    this.#isScheduled = false;
    this.#leftInTurn = this.#perTurn;
    while (this.#leftInTurn > 0) {
      const [next] = this.#waiting;
      if (!next) return;
      this.#leftInTurn--;
      const [client, tasks] = next;
      this.#waiting.delete(client);
      const task = tasks.shift()!;
      if (tasks.length > 0) this.#waiting.set(client, tasks);
      task();
    }
    if (this.#waiting.size > 0) this.#schedule();
  }
}
