import { execFile } from 'node:child_process';
import { chmodSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { Agent, request } from 'undici';
import { ChildProgram, plainEnvironment } from '../../ops/local-stack/embedded/child-program.ts';
import { fullPath } from '../../platform/config/programs.mjs';
import { madeOnce } from '../../test/support/made-once.ts';
import type { SecondMachine } from '../../test/support/second-machine.ts';
import type { Contender, MadeSandbox } from './contender.ts';
import { DockerDaemon } from './docker-daemon.ts';

const run = promisify(execFile);
const requirements = path.join(import.meta.dirname, 'opensandbox.txt');
const version = /^opensandbox-server==(.*)$/m.exec(readFileSync(requirements, 'utf8'))![1]!;
const image = 'bench-base';
const apiKey = 'bench';
const serverPort = 8090;
/** Its agent, in each container. */
const agentPort = 44_772;
/** Its SDK asks each 200 ms whether the agent answers. Here it is asked more often, so that no wait is counted. */
const pollMs = 5;

/** The server copies these into each container and starts the second: what is left when there is no agent. */
const standIn = { execd: '#!/bin/sh\n', 'bootstrap.sh': '#!/bin/sh\nexec "$@"\n' };

/** A server of OpenSandbox with its Docker runtime, on a network namespace of its own. */
export class OpenSandbox implements Contender {
  readonly name: string;
  /** The versions of its parts. */
  readonly versions: string;
  readonly hasAgent: boolean;
  readonly daemon: DockerDaemon;
  readonly #server: ChildProgram;
  readonly #url: string;
  readonly #docker: Agent;

  private constructor(
    daemon: DockerDaemon,
    server: ChildProgram,
    url: string,
    agentImage: string | null,
    dockerVersion: string,
  ) {
    this.name = agentImage ? 'OpenSandbox' : "OpenSandbox without its agent, by Docker's exec";
    this.versions = `opensandbox-server ${version}, agent ${agentImage ?? 'none'} (its default is opensandbox/execd:v1.1.0), Docker ${dockerVersion}`;
    this.daemon = daemon;
    this.#server = server;
    this.#url = url;
    this.hasAgent = agentImage !== null;
    this.#docker = new Agent({ connect: { socketPath: daemon.host.slice('unix://'.length) } });
  }

  /**
   * @param folder for all its files
   * @param rootfs the tree of the image of its sandboxes
   * @param agentFile its agent's image, as `docker save` writes it. Undefined: sandboxes have no agent
   */
  static async start(
    machine: SecondMachine,
    folder: string,
    rootfs: string,
    agentFile: string | undefined,
  ): Promise<OpenSandbox> {
    const programs = await madeOnce('bench-opensandbox', [readFileSync(requirements, 'utf8')], async (made) => {
      await run('python3', ['-m', 'venv', made]);
      await run(path.join(made, 'bin/pip'), ['install', '--quiet', '--requirement', requirements]);
    });
    const daemon = await DockerDaemon.start(machine.namespace, folder);
    try {
      await importTree(daemon, folder, rootfs);
      const agentImage = agentFile ? await loadImage(daemon, agentFile) : await makeStandIn(daemon, folder);
      const dockerVersion = await daemon.docker('version', '--format', '{{.Server.Version}}');
      const config = path.join(folder, 'opensandbox.toml');
      writeFileSync(config, configuration(machine.far, path.join(folder, 'store.db'), agentImage));
      const server = await ChildProgram.start({
        name: 'opensandbox-server',
        command: 'nsenter',
        args: [
          `--net=/run/netns/${machine.namespace}`,
          path.join(programs, 'bin/opensandbox-server'),
          ...['--config', config],
        ],
        home: { logDir: folder },
        env: { ...plainEnvironment(), PATH: fullPath(), HOME: folder, DOCKER_HOST: daemon.host },
      });
      const url = `http://${machine.far}:${serverPort}`;
      await server.whenReady(async () => {
        if (!(await fetch(`${url}/health`)).ok) throw new Error('not healthy');
      });
      return new OpenSandbox(daemon, server, url, agentFile ? agentImage : null, dockerVersion);
    } catch (error) {
      await daemon.stop();
      throw error;
    }
  }

  async create(): Promise<MadeSandbox> {
    const { id } = await this.#ask<{ id: string }>('POST', '/v1/sandboxes', {
      image: { uri: image },
      entrypoint: ['sleep', 'infinity'],
      timeout: 3600,
      resourceLimits: { cpu: '1', memory: '256Mi' },
    });
    return {
      run: (command, onOutput) =>
        this.hasAgent ? this.#run(id, command, onOutput) : this.#exec(id, command, onOutput),
      remove: async () => {
        await this.#ask('DELETE', `/v1/sandboxes/${id}`);
      },
    };
  }

  /** There is no pool, and a removal is over when it is answered. */
  async settle(): Promise<void> {}

  /** As its SDK does: asks for the agent's address, waits until the agent answers, and reads the command's events. */
  async #run(id: string, command: string, onOutput: () => void): Promise<void> {
    const { endpoint } = await this.#ask<{ endpoint: string }>('GET', `/v1/sandboxes/${id}/endpoints/${agentPort}`);
    const deadline = Date.now() + 60_000;
    while (!(await answers(`http://${endpoint}/ping`))) {
      if (Date.now() > deadline) throw new Error(`the agent of ${id} does not answer`);
      await delay(pollMs);
    }
    const reply = await fetch(`http://${endpoint}/command`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ command }),
    });
    if (!reply.ok) throw new Error(`command: ${reply.status} ${await reply.text()}`);
    let events = '';
    let hadOutput = false;
    for await (const chunk of reply.body!.pipeThrough(new TextDecoderStream())) {
      events += chunk;
      if (!hadOutput && events.includes('"type":"stdout"')) {
        hadOutput = true;
        onOutput();
      }
    }
  }

  /** Through Docker's API, as `docker exec` does, but without the start of that program. */
  async #exec(id: string, command: string, onOutput: () => void): Promise<void> {
    const post = async (route: string, body: object) => {
      const reply = await request(`http://docker${route}`, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify(body),
        dispatcher: this.#docker,
      });
      if (reply.statusCode >= 300) throw new Error(`${route}: ${reply.statusCode} ${await reply.body.text()}`);
      return reply.body;
    };
    const made = await post(`/containers/sandbox-${id}/exec`, { AttachStdout: true, Cmd: ['bash', '-c', command] });
    const { Id: execution } = (await made.json()) as { Id: string };
    let hadOutput = false;
    for await (const _ of await post(`/exec/${execution}/start`, { Detach: false, Tty: false })) {
      if (!hadOutput) onOutput();
      hadOutput = true;
    }
  }

  async stop(): Promise<void> {
    await this.#docker.close();
    await this.#server.stop();
    await this.daemon.stop();
  }

  async #ask<Data>(method: string, route: string, body?: object): Promise<Data> {
    const reply = await fetch(`${this.#url}${route}`, {
      method,
      headers: { 'OPEN-SANDBOX-API-KEY': apiKey, 'Content-Type': 'application/json' },
      ...(body && { body: JSON.stringify(body) }),
    });
    const text = await reply.text();
    if (!reply.ok) throw new Error(`${method} ${route}: ${reply.status} ${text}\n${this.#server.logTail()}`);
    return (text ? JSON.parse(text) : undefined) as Data;
  }
}

async function answers(url: string): Promise<boolean> {
  try {
    const reply = await fetch(url);
    await reply.arrayBuffer();
    return reply.ok;
  } catch {
    return false;
  }
}

async function importTree(daemon: DockerDaemon, folder: string, rootfs: string): Promise<void> {
  const archive = path.join(folder, 'base.tar');
  await run('tar', ['--create', '--numeric-owner', '--xattrs', `--directory=${rootfs}`, `--file=${archive}`, '.']);
  await daemon.docker('import', '--change', 'ENV LANG=C.UTF-8', archive, image);
}

async function loadImage(daemon: DockerDaemon, file: string): Promise<string> {
  const loaded = await daemon.docker('load', '--input', file);
  const name = /^Loaded image: (.*)$/m.exec(loaded)?.[1];
  if (!name) throw new Error(`${file} has no image with a name: ${loaded}`);
  return name;
}

async function makeStandIn(daemon: DockerDaemon, folder: string): Promise<string> {
  const container = await daemon.docker('create', image, 'true');
  for (const [name, content] of Object.entries(standIn)) {
    const file = path.join(folder, name);
    writeFileSync(file, content);
    chmodSync(file, 0o755);
    await daemon.docker('cp', file, `${container}:/${name}`);
  }
  await daemon.docker('commit', container, 'bench-stand-in');
  await daemon.docker('rm', container);
  return 'bench-stand-in';
}

/** Its example configuration, with the addresses, files and names of this run. */
function configuration(address: string, store: string, agentImage: string): string {
  return `[server]
host = "${address}"
port = ${serverPort}
api_key = "${apiKey}"
[runtime]
type = "docker"
execd_image = "${agentImage}"
[store]
type = "sqlite"
path = "${store}"
[docker]
network_mode = "bridge"
publish_host = "${address}"
drop_capabilities = [
  "AUDIT_WRITE", "MKNOD", "NET_ADMIN", "NET_RAW", "SYS_ADMIN", "SYS_MODULE", "SYS_PTRACE", "SYS_TIME", "SYS_TTY_CONFIG",
]
no_new_privileges = true
pids_limit = 4096
[ingress]
mode = "direct"
`;
}
