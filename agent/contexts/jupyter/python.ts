import fs from 'node:fs';
import path from 'node:path';
import { Code } from '@connectrpc/connect';
import { findExecutable } from '../../process/find-executable.ts';
import { ConnectError } from '../../rpc/connect-error.ts';
import type { KernelStart } from '../kernel.ts';
import { KernelProcess, makeKernelFolder, pipesRead } from '../kernel-process.ts';
import { type ConnectionFile, KernelConnection, startSignal } from './connection.ts';
import { JupyterKernel } from './kernel.ts';
import { findKernelSpecs } from './kernel-spec.ts';

const missingIpykernel = 'use the template code-interpreter, or install it with: pip install ipykernel';

/**
 * Starts ipykernel with the first Python that has it: `python3` and `python` of PATH, then the Pythons of kernel specs.
 * @throws {ConnectError} `failed_precondition` when there is none
 */
export async function startPython(start: KernelStart): Promise<JupyterKernel> {
  const interpreters = new Set(['python3', 'python'].map((name) => findExecutable(name, start.searchPath)));
  for (const spec of findKernelSpecs(start)) {
    if (spec.language === 'python' && path.isAbsolute(spec.argv[0]!))
      interpreters.add(findExecutable(spec.argv[0]!, start.searchPath));
  }
  interpreters.delete(undefined);
  const refusals: string[] = [];
  for (const interpreter of interpreters) {
    const started = await startWith(interpreter!, start);
    if (started instanceof JupyterKernel) return started;
    refusals.push(started.missing);
  }
  const reason = refusals.length > 0 ? `no ipykernel (${refusals.join('; ')})` : 'no python3 on PATH';
  throw new ConnectError(`python is not available: ${reason}; ${missingIpykernel}`, Code.FailedPrecondition);
}

async function startWith(interpreter: string, start: KernelStart): Promise<JupyterKernel | { missing: string }> {
  const folder = makeKernelFolder();
  // Unix sockets in a private folder: no other process in the sandbox can reach the kernel, so messages need no
  // signatures.
  const file: ConnectionFile = {
    transport: 'ipc',
    ip: path.join(folder, 'kernel'),
    shell_port: 1,
    iopub_port: 2,
    stdin_port: 3,
    control_port: 4,
    hb_port: 5,
    key: '',
    signature_scheme: 'hmac-sha256',
  };
  const connectionFile = path.join(folder, 'connection.json');
  fs.writeFileSync(connectionFile, JSON.stringify(file), { mode: 0o600 });
  const kernel = new KernelProcess([interpreter, path.join(start.scripts, 'python_kernel.py'), connectionFile], {
    cwd: start.cwd,
    env: start.env,
    stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
    folder,
  });
  const kill = () => kernel.signalGroup('SIGKILL');
  start.signal.addEventListener('abort', kill);
  try {
    const said = await firstLine(kernel);
    if (said.failed) {
      throw new ConnectError(`the python kernel did not start: ${said.failed}`, Code.FailedPrecondition);
    }
    if (said.missing) {
      await kernel.close();
      return { missing: said.missing };
    }
    const connection = await KernelConnection.open(file, startSignal(start, kernel));
    return new JupyterKernel(kernel, connection, {
      language: 'python',
      interruptMode: 'signal',
      valueIsLastDisplay: false,
      processOutputIsCode: false,
    });
  } catch (error) {
    const failure = error instanceof ConnectError ? error : kernel.startFailure('python', '');
    await kernel.close();
    start.signal.throwIfAborted();
    throw failure;
  } finally {
    start.signal.removeEventListener('abort', kill);
  }
}

/** The start script's line on descriptor 3. */
function firstLine(kernel: KernelProcess): Promise<{ ready?: true; missing?: string; failed?: string }> {
  return new Promise((resolve, reject) => {
    const stderr = kernel.child.stderr!;
    let errors = '';
    const keep = (chunk: Buffer) => {
      errors = (errors + chunk.toString()).slice(-2000);
    };
    stderr.on('data', keep);
    let text = '';
    kernel.child.stdio[3]!.on('data', (chunk: Buffer) => {
      text += chunk.toString();
      if (!text.endsWith('\n')) return;
      stderr.off('data', keep);
      resolve(JSON.parse(text));
    });
    void kernel.exited.then(async () => {
      await pipesRead();
      reject(kernel.startFailure('python', errors));
    });
  });
}
