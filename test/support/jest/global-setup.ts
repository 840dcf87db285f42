import { TestStack } from '../test-stack.ts';

declare global {
  var testStack: TestStack | undefined;
}

/** Runs before the first test file: starts the server that gives test files their real parts. */
export default async function globalSetup(): Promise<void> {
  globalThis.testStack = await TestStack.listen(process.env.TEST_RUN_DIR);
  process.env.TEST_STACK_SOCKET = globalThis.testStack.socket;
}
