import { once } from 'node:events';
import os from 'node:os';
import { parentPort, Worker, workerData } from 'node:worker_threads';

/** A thread's share of a busy processor, compared with the threads of requests: about a third. */
const niceness = 5;

/**
 * Runs a module in a new thread and returns the value that it makes with `makeInThread`. Buffers in it become
 * `Uint8Array`s. Work of more than some milliseconds on the event loop would delay the requests of all accounts.
 * @throws the error of the thread; the signal's reason as soon as it aborts
 */
export async function resultOfThread<Result>(module: URL, input: unknown, signal: AbortSignal): Promise<Result> {
  signal.throwIfAborted();
  const thread = new Worker(module, { workerData: input });
  try {
    const [result] = await once(thread, 'message', { signal });
    return result as Result;
  } catch (error) {
    throw signal.aborted ? signal.reason : error;
  } finally {
    await thread.terminate();
  }
}

/** In the thread: makes the value from the input. */
export async function makeInThread<Input>(make: (input: Input) => Promise<unknown>): Promise<void> {
  // On Linux this is the priority of the calling thread only.
  os.setPriority(niceness);
  parentPort!.postMessage(await make(workerData as Input));
}
