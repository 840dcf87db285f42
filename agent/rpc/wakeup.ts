/** Lets one waiter sleep until another party wakes it. Streams without events wait like this. */
export class Wakeup {
  #waiter: ((woken: boolean) => void) | undefined;

  /** Ends the wait if there is one. */
  wake(): void {
    this.#waiter?.(true);
  }

  /** Whether `wake` was called within the time. */
  within(ms: number): Promise<boolean> {
    return new Promise((resolve) => {
      const done = (woken: boolean) => {
        clearTimeout(timer);
        this.#waiter = undefined;
        resolve(woken);
      };
      const timer = setTimeout(done, ms, false);
      this.#waiter = done;
    });
  }
}
