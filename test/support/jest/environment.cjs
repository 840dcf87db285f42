const fs = require('node:fs');
const path = require('node:path');
const { TestEnvironment } = require('jest-environment-node');

/**
 * Notes for each test file where its time goes, for `npm test -- --profile`: one line of JSON in TEST_TIMES_FILE, in
 * seconds. `cpu` is the processor time of the worker process alone, `programs` the time of programs that it has started
 * and that have ended. What the run shares (Postgres, Temporal, the platform) is in neither.
 */
module.exports = class TimedEnvironment extends TestEnvironment {
  #file;
  #seconds = { load: 0, setUp: 0, tests: 0, tearDown: 0 };
  #startedMs = performance.now();
  #cpu = process.cpuUsage();
  #programs = endedPrograms();

  constructor(config, context) {
    super(config, context);
    this.#file = path.relative(config.projectConfig.rootDir, context.testPath);
  }

  handleTestEvent({ name, hook }) {
    if (name === 'run_start') this.#end('load');
    else if (name === 'hook_start' || name === 'test_fn_start') this.#startedMs = performance.now();
    else if (name.startsWith('hook_')) this.#end(hook.type.startsWith('before') ? 'setUp' : 'tearDown');
    else if (name.startsWith('test_fn_')) this.#end('tests');
  }

  #end(part) {
    const nowMs = performance.now();
    this.#seconds[part] += (nowMs - this.#startedMs) / 1000;
    this.#startedMs = nowMs;
  }

  async teardown() {
    await super.teardown();
    const { user, system } = process.cpuUsage(this.#cpu);
    const programs = endedPrograms() - this.#programs;
    const times = { file: this.#file, ...this.#seconds, cpu: (user + system) / 1e6, programs };
    if (process.env.TEST_TIMES_FILE) fs.appendFileSync(process.env.TEST_TIMES_FILE, `${JSON.stringify(times)}\n`);
  }
};

/** Seconds of processor time of this process's ended children and of their ended children. */
function endedPrograms() {
  const [user, system] = fs.readFileSync('/proc/self/stat', 'latin1').split(') ').at(-1).split(' ').slice(13, 15);
  return (Number(user) + Number(system)) / 100;
}
