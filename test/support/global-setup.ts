import { TestStack } from './test-stack.ts';

declare global {
  var testStack: TestStack | undefined;
}

/** Before the first test file: the place where all of them ask for real parts. */
export default async function globalSetup(): Promise<void> {
  globalThis.testStack = await TestStack.listen();
  process.env.TEST_STACK_SOCKET = globalThis.testStack.socket;
}
