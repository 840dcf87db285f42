/**
 * Runs costly pieces of work, at most so many in one turn of the event loop: what many connections want at once would
 * otherwise hold up every other connection until all of it is done.
 */
export class TurnQueue {
  readonly #perTurn: number;
  readonly #tasks: (() => void)[] = [];
  #next = 0;
  #isScheduled = false;
  #leftInTurn: number;

  constructor(perTurn: number) {
    this.#perTurn = perTurn;
    this.#leftInTurn = perTurn;
  }

  /** Runs `task` now if this turn has room for it, else in its order in a later one. It must not throw. */
  run(task: () => void): void {
    this.#schedule();
    if (this.#leftInTurn === 0) {
      this.#tasks.push(task);
      return;
    }
    this.#leftInTurn--;
    task();
  }

  /** Runs `task` in a later turn. It must not throw. */
  runLater(task: () => void): void {
    this.#schedule();
    this.#tasks.push(task);
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => this.#turn());
  }

  #turn(): void {
    this.#isScheduled = false;
    this.#leftInTurn = this.#perTurn;
    while (this.#leftInTurn > 0 && this.#next < this.#tasks.length) {
      this.#leftInTurn--;
      this.#tasks[this.#next++]!();
    }
    if (this.#next === this.#tasks.length) {
      this.#tasks.length = 0;
      this.#next = 0;
    } else {
      // Half of the list is over: a queue that is never empty must not grow.
      if (this.#next > this.#tasks.length / 2) {
        this.#tasks.splice(0, this.#next);
        this.#next = 0;
      }
      this.#schedule();
    }
  }
}
