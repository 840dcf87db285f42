// Runs the JavaScript and TypeScript of one context. Descriptor 4 carries requests, one JSON per line. Descriptor 3
// carries frames: a type byte, the length (32 bits, little-endian), and standard output (1), standard error (2) or a
// JSON message (3). It is one ordered channel, written synchronously, so output stays in order, and a slow reader slows
// its writer.
import { Console } from 'node:console';
import fs from 'node:fs';
import { Session } from 'node:inspector';
import { createRequire, stripTypeScriptTypes } from 'node:module';
import net from 'node:net';
import path from 'node:path';
import readline from 'node:readline';
import { Writable } from 'node:stream';
import { pathToFileURL } from 'node:url';
import util from 'node:util';
import { promiseHooks } from 'node:v8';
import vm from 'node:vm';

const frameType = { stdout: 1, stderr: 2, message: 3 };
const frameBytes = 64 * 1024;

function send(type, payload) {
  const head = Buffer.alloc(5);
  head[0] = type;
  head.writeUInt32LE(payload.length, 1);
  sendRest();
  const next = Buffer.concat([head, payload]);
  // No call separates these two lines, so no interrupt does.
  frame = next;
  sentBytes = 0;
  sendRest();
}

// An interrupt may end `send` at any call or turn of a loop. Then the rest of its frame is sent before the next frame.
let frame = Buffer.alloc(0);
let sentBytes = 0;
function sendRest() {
  while (sentBytes < frame.length) sentBytes += fs.writeSync(3, frame, sentBytes);
}

// JSON has no limit for integers.
const withBigIntegers = (_, value) => (typeof value === 'bigint' ? JSON.rawJSON(String(value)) : value);
const sendMessage = (message) => send(frameType.message, Buffer.from(JSON.stringify(message, withBigIntegers)));

/** Writes synchronously: an interrupt during the work of a real Writable would leave it waiting for itself forever. */
class OutputStream extends Writable {
  isTTY = false;
  _type = 'pipe';

  constructor(type, fd) {
    super({ decodeStrings: true });
    this.type = type;
    this.fd = fd;
  }

  write(chunk, encoding, done) {
    if (typeof encoding === 'function') return this.write(chunk, undefined, encoding);
    const bytes = typeof chunk === 'string' ? Buffer.from(chunk, encoding) : chunk;
    for (let start = 0; start < bytes.length; start += frameBytes) {
      send(this.type, bytes.subarray(start, start + frameBytes));
    }
    if (done) process.nextTick(done);
    return true;
  }

  end(chunk, encoding, done) {
    if (chunk !== undefined && typeof chunk !== 'function') this.write(chunk, encoding, done);
    return this;
  }
}

const stdout = new OutputStream(frameType.stdout, 1);
const stderr = new OutputStream(frameType.stderr, 2);
Object.defineProperty(process, 'stdout', { value: stdout, configurable: true });
Object.defineProperty(process, 'stderr', { value: stderr, configurable: true });
// Node's own console also feeds the inspector, which would keep every printed value.
globalThis.console = new Console({ stdout, stderr });

const contextFile = path.join(process.cwd(), '[context]');
const importFromContext = new vm.Script('(specifier, options) => import(specifier, options)', {
  filename: contextFile,
  importModuleDynamically: vm.constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
}).runInThisContext();
importFromContext.meta = {
  url: pathToFileURL(contextFile).href,
  filename: contextFile,
  dirname: process.cwd(),
};
const hidden = (name, value) => Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
const fixed = (name, value) => Object.defineProperty(globalThis, name, { value });
fixed('__import__', importFromContext);
hidden('require', createRequire(contextFile));
hidden('module', { exports: {} });
hidden('exports', globalThis.module.exports);
hidden('display', (value, { raw = false } = {}) => {
  sendMessage({ type: 'display', data: raw ? value : describe(value, true) });
});

/**
 * The formats of a value: its own (`Symbol.for('Jupyter.display')`), or else the REPL's text, and plain data that
 * the code displays as JSON. A value of the execution may be a chart, too.
 */
function describe(value, isDisplay) {
  const own = value?.[Symbol.for('Jupyter.display')];
  if (typeof own === 'function') return own.call(value);
  const bundle = { 'text/plain': util.inspect(value) };
  const prototype = typeof value === 'object' && value !== null ? Object.getPrototypeOf(value) : undefined;
  if (Array.isArray(value) || prototype === Object.prototype || prototype === null) {
    try {
      JSON.stringify(value, withBigIntegers);
      if (isDisplay) bundle['application/json'] = value;
      else if (Array.isArray(value.elements)) bundle['application/vnd.sandbox.chart+json'] = value;
    } catch {
      // Cycles have no JSON, so only their text is sent.
    }
  }
  return bundle;
}

const session = new Session();
session.connect();
const post = (method, parameters) =>
  new Promise((resolve, reject) => {
    session.post(method, parameters, (error, reply) => (error ? reject(error) : resolve(reply)));
  });

/** Converts code for V8's REPL mode: without types and static imports, and an object literal becomes an expression. */
async function prepare(code, typescript) {
  let script = typescript ? stripTypes(code) : code;
  if (/\b(?:import|export)\b/.test(script)) {
    const { rewriteImports } = await import('./node_imports.mjs');
    script = rewriteImports(script);
  }
  if (/^\s*\{/.test(script) && !/;\s*$/.test(script)) {
    const wrapped = `(${script.trim()}\n)`;
    try {
      new vm.Script(wrapped);
      return wrapped;
    } catch {
      // The braces are a block, not an object.
    }
  }
  return script;
}

function stripTypes(code) {
  try {
    return stripTypeScriptTypes(code);
  } catch (error) {
    // Enums and namespaces are code, not only types.
    if (error.code !== 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX') throw error;
    return stripTypeScriptTypes(code, { mode: 'transform' });
  }
}

class ProcessExit extends Error {}

/** One request to run code. It ends once: with its value, its error, or a cancellation. */
class Execution {
  constructor(request, done) {
    this.request = request;
    this.done = done;
    this.savedEnv = Object.keys(request.envVars).map((name) => [name, process.env[name]]);
    Object.assign(process.env, request.envVars);
  }

  end(message) {
    if (execution !== this) return;
    execution = undefined;
    for (const [name, value] of this.savedEnv) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
    sendMessage({ type: 'done', ...message });
    this.done();
  }

  fail(thrown) {
    this.end({ error: describeError(thrown) });
  }

  async evaluate() {
    let script = await prepare(this.request.code, this.request.typescript);
    if (execution !== this) return;
    script += `\n//# sourceURL=run-${this.request.count}`;
    const value = await this.evaluateInterruptibly(script);
    const awaited = util.types.isPromise(value) ? await value : value;
    this.end({ value: awaited === undefined ? {} : describe(awaited, false), exitCode: 0 });
  }

  async evaluateInterruptibly(expression) {
    const evaluation = new Evaluation(expression);
    const stop = promiseHooks.onInit((promise) => evaluation.hold(promise));
    startEvaluation = evaluation.start;
    try {
      // SIGINT ends the synchronous part, even if it is busy.
      evaluationScript.runInThisContext({ breakOnSigint: true });
    } finally {
      stop();
    }
    return evaluation.reply.then(async (reply) => {
      const { exceptionDetails, result } = reply;
      let value;
      takeValue = (taken) => {
        value = taken;
      };
      const argument = toCallArgument(exceptionDetails ? exceptionDetails.exception : result);
      const functionDeclaration = 'function (value) { this(value); }';
      await post('Runtime.callFunctionOn', {
        functionDeclaration,
        objectId: takerId,
        arguments: [argument],
        silent: true,
      });
      await post('Runtime.releaseObjectGroup', { objectGroup: 'run' });
      if (exceptionDetails) throw value;
      return value;
    });
  }
}

function toCallArgument({ objectId, unserializableValue, value }) {
  if (objectId) return { objectId };
  return unserializableValue ? { unserializableValue } : { value };
}

/**
 * Code in V8's REPL mode, which supports await at top level, and allows later executions to declare `const`, `let` and
 * classes again.
 * The inspector awaits the promise of the evaluation by a weak reference, and crashes the process if the promise is
 * collected (because it can never be settled, or its execution was cancelled). The promise of the evaluation is the
 * first one that the evaluation makes, so that promise is held until the inspector has replied.
 */
class Evaluation {
  constructor(expression) {
    const parameters = { expression, replMode: true, awaitPromise: true, objectGroup: 'run' };
    this.reply = new Promise((resolve, reject) => {
      const answer = (error, reply) => {
        heldPromises.delete(this.held);
        if (error) reject(error);
        else resolve(reply);
      };
      this.start = () => session.post('Runtime.evaluate', parameters, answer);
    });
    // There is no listener for the reply to an interrupted evaluation.
    this.reply.catch(() => {});
  }

  hold(promise) {
    if (this.held) return;
    this.held = promise;
    heldPromises.add(promise);
  }
}
const heldPromises = new Set();

let execution;
let startEvaluation;
let takeValue;
fixed('__start__', () => startEvaluation());
const evaluationScript = new vm.Script('__start__()', { filename: 'node:context' });
fixed('__take__', (value) => takeValue(value));
const takerId = (await post('Runtime.evaluate', { expression: '__take__' })).result.objectId;

function describeError(thrown) {
  if (!util.types.isNativeError(thrown) && !(thrown instanceof Error)) {
    return { name: 'Error', value: typeof thrown === 'string' ? thrown : util.inspect(thrown), traceback: '' };
  }
  const stack = String(thrown.stack ?? thrown);
  // Frames below the code of the execution belong to this script.
  const own = stack.search(
    /\n +at (?:Session\.post|.*node:context|.*node_kernel\.mjs|.*node:internal\/(?:modules\/typescript|process\/task_queues))/,
  );
  return { name: String(thrown.name), value: String(thrown.message), traceback: own < 0 ? stack : stack.slice(0, own) };
}

/** Long enough for Node's watchdog thread to run on a busy machine. The wait leaves the processor to that thread. */
const lateInterruptMs = 100;
const { wait } = Atomics;
const never = new Int32Array(new SharedArrayBuffer(4));
fixed('__pause__', () => wait(never, 0, 0, lateInterruptMs));
const pauseScript = new vm.Script('__pause__()', { filename: 'node:context' });

/**
 * A SIGINT at the end of a script may end the next script instead, because the semaphore of Node's watchdog keeps the
 * count (`SigintWatchdogHelper` in src/node_watchdog.cc). So a script of our own consumes it before the next execution.
 */
function takeLateInterrupts() {
  for (let isInterrupted = true; isInterrupted; ) {
    isInterrupted = false;
    try {
      pauseScript.runInThisContext({ breakOnSigint: true });
    } catch (error) {
      if (error?.code !== 'ERR_SCRIPT_EXECUTION_INTERRUPTED') throw error;
      isInterrupted = true;
    }
  }
}

let mayInterruptLate = false;
const requests = new net.Socket({ fd: 4, readable: true, writable: false });
// A context is useless without its agent.
requests.on('close', () => process.reallyExit(0));
readline.createInterface({ input: requests }).on('line', (line) => {
  const request = JSON.parse(line);
  if (request.interrupt !== undefined) {
    if (execution?.request.count === request.interrupt) execution.end({ error: interrupted() });
    mayInterruptLate = true;
    return;
  }
  // The agent sent all signals for earlier executions before this request.
  if (mayInterruptLate) takeLateInterrupts();
  mayInterruptLate = false;
  // If the event loop is empty while an execution awaits, its promise can never settle.
  requests.unref();
  execution = new Execution(request, () => requests.ref());
  const current = execution;
  execution.evaluate().catch((error) => {
    if (error?.code === 'ERR_SCRIPT_EXECUTION_INTERRUPTED') current.end({ error: interrupted() });
    else current.fail(error);
  });
});

const interrupted = () => ({ name: 'Interrupted', value: 'the run was interrupted', traceback: '' });
// Executions that await are ended by a request. Signals are for code that keeps this process busy, and for its
// subprocesses.
process.on('SIGINT', () => {});
process.on('beforeExit', () => {
  execution?.end({
    error: { name: 'Error', value: 'the run awaits a promise that nothing can settle any more', traceback: '' },
  });
});
process.on('uncaughtException', (thrown) => {
  if (thrown instanceof ProcessExit) return;
  const { name, value, traceback } = describeError(thrown);
  stderr.write(`Uncaught ${traceback || `${name}: ${value}`}\n`);
});
// `process.exit()` ends the execution as it would end a script. The context stays.
process.exit = (code = process.exitCode ?? 0) => {
  execution?.end({ value: {}, exitCode: Number(code) });
  throw new ProcessExit('process.exit');
};

sendMessage({ type: 'ready' });
