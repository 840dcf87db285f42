/** Lets one waiter sleep until another party wakes it. Streams without events wait like this. Call `close` at the end. */
export class Wakeup {
  #waiter: ((woken: boolean) => void) | undefined;
  /** It runs on when a waiter is woken, because the next wait comes soon. */
  #timer: NodeJS.Timeout | undefined;

  /** Ends the wait if there is one. */
  wake(): void {
    this.#end(true);
  }

  /** Whether `wake` was called within the time, which is the same in each call. */
  within(ms: number): Promise<boolean> {
    if (this.#timer) this.#timer.refresh();
    else this.#timer = setTimeout(() => this.#end(false), ms);
    return new Promise((resolve) => {
      this.#waiter = resolve;
    });
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #end(woken: boolean): void {
    const waiter = this.#waiter;
    this.#waiter = undefined;
    waiter?.(woken);
  }
}
