/**
 * Runs a limited number of tasks in each turn of the event loop, and serves the clients in rotation. A client with a
 * lot of work delays neither other clients nor the rest of the process.
 */
export class FairTurns {
  readonly #perTurn: number;
  /** Waiting tasks by client. The first client is served next. */
  readonly #waiting = new Map<string, (() => void)[]>();
  #isScheduled = false;
  #leftInTurn: number;

  constructor(perTurn: number) {
    this.#perTurn = perTurn;
    this.#leftInTurn = perTurn;
  }

  /** Runs `task` now if this turn has a free place, otherwise in a later turn. It must not throw. */
  run(client: string, task: () => void): void {
    this.#schedule();
    if (this.#leftInTurn > 0) {
      this.#leftInTurn--;
      task();
      return;
    }
    this.#add(client, task);
  }

  /** Runs `task` in a later turn. It must not throw. */
  runLater(client: string, task: () => void): void {
    this.#schedule();
    this.#add(client, task);
  }

  #add(client: string, task: () => void): void {
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
