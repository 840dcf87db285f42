import fs from 'node:fs';
import path from 'node:path';
import { outline, TestContexts } from './support/contexts.ts';
import { makingMs, realPython, realR } from './support/real-kernels.ts';

describe('R, through IRkernel', () => {
  let r: TestContexts;
  let contextId: string;
  let tree: string;

  beforeAll(async () => {
    const environment = await realR();
    tree = environment.R_TREE!;
    r = new TestContexts(environment);
    contextId = await r.create('r');
  }, makingMs);
  afterAll(async () => {
    await r?.close();
    for (const name of fs.readdirSync(path.join(tree, 'tmp')))
      fs.rmSync(path.join(tree, 'tmp', name), { recursive: true });
  });

  const run = (code: string, envVars: Record<string, string> = {}) => r.run({ contextId, code, envVars });

  test('keeps its state, and the last value is the main result', async () => {
    await run('numbers <- c(1, 2, 3)');
    const { main, displays } = await run('sum(numbers)');
    expect(main).toMatchObject({ text: '[1] 6', isMainResult: true });
    expect(displays).toEqual([]);
  });

  test('output, intermediate values and subprocesses are in order', async () => {
    const ran = await run('cat("a\\n"); message("b"); 1; cat("c\\n")');
    expect(outline(ran)).toEqual(['out a\n', expect.stringMatching(/^err b\n/), 'result', 'out c\n', 'result']);
    expect((await run('invisible(system("echo sub"))')).stdout).toBe('sub\n');
  });

  test('a plot is a png', async () => {
    const { main } = await run('plot(1:3)');
    expect(Buffer.from(main!.png!, 'base64').subarray(1, 4).toString()).toBe('PNG');
  });

  test('errors are reported, and variables of one execution are removed after it', async () => {
    expect((await run('stop("boom")')).error!.value).toContain('boom');
    expect((await run('Sys.getenv("ONE")', { ONE: 'a "b" é' })).main!.text).toBe('[1] "a \\"b\\" é"');
    expect((await run('Sys.getenv("ONE", "unset")')).main!.text).toBe('[1] "unset"');
  });

  test('a client that leaves interrupts the code, and the state stays', async () => {
    await run('kept <- 1');
    const code = 'message("started"); Sys.sleep(1000)';
    for await (const event of r.stream({ contextId, code })) if (event.type === 'stderr') break;
    expect((await run('kept')).main!.text).toBe('[1] 1');
  });

  test('a dead kernel is reported', async () => {
    const { error } = await run('system(paste("kill -9", Sys.getpid()))');
    expect(error).toMatchObject({ name: 'KernelDied', value: expect.stringContaining('r kernel died') });
  });
});

describe('Java, through JJava', () => {
  let java: TestContexts;
  let contextId: string;

  beforeAll(async () => {
    java = new TestContexts({ PATH: await realPython() });
    contextId = await java.create('java');
  }, makingMs);
  afterAll(() => java?.close());

  const run = (code: string) => java.run({ contextId, code });

  test('keeps its state, prints and gives values', async () => {
    const { main, stdout } = await run('int x = 5; System.out.println("hi"); x + 1');
    expect(stdout).toBe('hi\n');
    expect(main).toMatchObject({ text: '6', isMainResult: true });
    expect((await run('x * 2')).main!.text).toBe('10');
  });

  test('errors of throwing code and of code that does not compile are reported', async () => {
    expect((await run('throw new IllegalStateException("boom");')).error!.value).toContain('boom');
    expect((await run('int y = "text";')).error!.traceback).toContain('incompatible types');
  });

  test('a client that leaves interrupts the code, and the state stays', async () => {
    const code = 'System.out.println("started"); Thread.sleep(1000000);';
    for await (const event of java.stream({ contextId, code })) if (event.type === 'stdout') break;
    expect((await run('x')).main!.text).toBe('5');
  });

  test('refuses variables for one execution with the reason', async () => {
    await expect(java.run({ contextId, code: '1', envVars: { ONE: '1' } })).rejects.toMatchObject({
      rawMessage: expect.stringContaining('java cannot change its environment'),
    });
  });
});
