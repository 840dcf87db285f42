import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { Code } from '@connectrpc/connect';
import { findExecutable } from '../../process/find-executable.ts';
import { ConnectError } from '../../rpc/connect-error.ts';
import type { KernelStart } from '../kernel.ts';
import { KernelProcess, makeKernelFolder } from '../kernel-process.ts';
import { type ConnectionFile, KernelConnection, startSignal } from './connection.ts';
import { JupyterKernel, type KernelTraits } from './kernel.ts';
import { findKernelSpecs } from './kernel-spec.ts';

/**
 * Becomes the kernel, after starting a shell that waits for the end of descriptor 3, which the agent holds, and then
 * kills the process group. Third-party kernels would otherwise outlive the agent.
 */
const endWithAgent = '{ read -r _ <&3; kill -KILL 0; } >/dev/null 2>&1 & exec "$@" 3<&-';

/** The package to install if a template lacks the language, and the peculiarities of its kernel. */
const kernels: Record<'r' | 'java', { install: string; traits: Omit<KernelTraits, 'interruptMode'> }> = {
  r: {
    install: "r-cran-irkernel (Debian), or in R: install.packages('IRkernel'); IRkernel::installspec()",
    traits: { language: 'r', environmentCode: rEnvironment, valueIsLastDisplay: true, processOutputIsCode: true },
  },
  java: {
    install: 'a JDK and a Jupyter kernel for Java (JJava or IJava), whose kernel spec says language: java',
    traits: {
      language: 'java',
      environmentCode: () => ({ before: '', after: '' }),
      valueIsLastDisplay: false,
      processOutputIsCode: true,
    },
  },
};

/**
 * Starts the language's kernel according to its kernel spec.
 * @throws {ConnectError} `failed_precondition` when no such kernel is installed, or it does not start
 */
export async function startInstalledKernel(language: 'r' | 'java', start: KernelStart): Promise<JupyterKernel> {
  const { install, traits } = kernels[language];
  const spec = findKernelSpecs(start).find((found) => found.language === language);
  const words = spec?.argv.map((word) => word.replaceAll('{resource_dir}', spec.folder));
  const program = words && findExecutable(words[0]!, start.searchPath);
  if (!spec || !words || !program) {
    const reason = words ? `its kernel spec starts ${words[0]}, which is not there` : 'no kernel spec was found';
    throw new ConnectError(`${language} is not available: ${reason}; install ${install}`, Code.FailedPrecondition);
  }
  const folder = makeKernelFolder();
  const file = await chooseConnection();
  const connectionFile = path.join(folder, 'connection.json');
  fs.writeFileSync(connectionFile, JSON.stringify(file), { mode: 0o600 });
  const argv = words.slice(1).map((word) => word.replaceAll('{connection_file}', connectionFile));
  const kernel = new KernelProcess(['/bin/sh', '-c', endWithAgent, 'sh', program, ...argv], {
    cwd: start.cwd,
    env: { ...chooseLocale(start.env), ...start.env, ...spec.env },
    stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
    folder,
  });
  let errors = '';
  const keep = (chunk: Buffer) => {
    errors = (errors + chunk.toString()).slice(-2000);
  };
  kernel.child.stdout!.on('data', keep);
  kernel.child.stderr!.on('data', keep);
  try {
    const connection = await KernelConnection.open(file, startSignal(start, kernel));
    return new JupyterKernel(kernel, connection, { ...traits, interruptMode: spec.interruptMode });
  } catch {
    const failure = kernel.startFailure(language, errors);
    await kernel.close();
    start.signal.throwIfAborted();
    throw failure;
  } finally {
    kernel.child.stdout!.off('data', keep);
    kernel.child.stderr!.off('data', keep);
  }
}

/** R and Java take the encoding of texts from the locale. Most images set none, which means ASCII. */
function chooseLocale(env: Record<string, string>): Record<string, string> {
  return (env.LC_ALL ?? env.LC_CTYPE ?? env.LANG) ? {} : { LC_CTYPE: 'C.UTF-8' };
}

/** Free ports of the loopback interface. Third-party kernels only support TCP. */
async function chooseConnection(): Promise<ConnectionFile> {
  const servers = await Promise.all(
    Array.from({ length: 5 }, () => {
      const server = net.createServer();
      return new Promise<net.Server>((resolve, reject) => {
        server.once('error', reject);
        server.listen(0, '127.0.0.1', () => resolve(server));
      });
    }),
  );
  const ports = servers.map((server) => (server.address() as net.AddressInfo).port);
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return {
    transport: 'tcp',
    ip: '127.0.0.1',
    shell_port: ports[0]!,
    iopub_port: ports[1]!,
    stdin_port: ports[2]!,
    control_port: ports[3]!,
    hb_port: ports[4]!,
    key: randomBytes(32).toString('hex'),
    signature_scheme: 'hmac-sha256',
  };
}

/** R has no environment per evaluation, so variables are set before and restored afterwards. */
function rEnvironment(envVars: Record<string, string>): { before: string; after: string } {
  const names = Object.keys(envVars);
  if (names.length === 0) return { before: '', after: '' };
  const values = names.map((name) => `${rText(name)} = ${rText(envVars[name]!)}`).join(', ');
  const list = names.map(rText).join(', ');
  return {
    before: `options(sandbox.environment = Sys.getenv(c(${list}), unset = NA, names = TRUE)); do.call(Sys.setenv, list(${values}))`,
    after: `local({ saved <- getOption("sandbox.environment"); Sys.unsetenv(names(saved)); saved <- saved[!is.na(saved)]; if (length(saved)) do.call(Sys.setenv, as.list(saved)) })`,
  };
}

/** R reads the escapes of JSON, except those of code points above the basic plane, which are written literally. */
function rText(text: string): string {
  return JSON.stringify(text);
}
