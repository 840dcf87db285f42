import fs from 'node:fs';
import path from 'node:path';
import { ChildProgram, type ProgramEnd, type ProgramHome } from './child-program.ts';

export interface EmbeddedWebUi {
  pid: number;
  ended: Promise<ProgramEnd>;
  /** `http://127.0.0.1:<port>` */
  url: string;
  stop(): Promise<void>;
}

export interface WebUiOptions {
  program: string;
  dir: string;
  home: ProgramHome;
  port: number;
  temporalAddress: string;
  namespace: string;
  /**
   * The endpoint at which the browser decrypts payloads. It contains an access token, so the configuration has mode
   * 600.
   */
  codecEndpoint?: string;
}

/**
 * Starts Temporal's Web UI on loopback.
 * @throws {ProgramError} when it does not become ready
 */
export async function startWebUi(options: WebUiOptions): Promise<EmbeddedWebUi> {
  const url = `http://127.0.0.1:${options.port}`;
  fs.mkdirSync(options.dir, { recursive: true, mode: 0o700 });
  // JSON is a subset of YAML.
  fs.writeFileSync(
    path.join(options.dir, 'embedded.yaml'),
    JSON.stringify({
      temporalGrpcAddress: options.temporalAddress,
      host: '127.0.0.1',
      port: options.port,
      enableUi: true,
      defaultNamespace: options.namespace,
      notifyOnNewVersion: false,
      cors: { allowOrigins: [url] },
      codec: { endpoint: options.codecEndpoint ?? '' },
    }),
    { mode: 0o600 },
  );
  const program = await ChildProgram.start({
    name: 'temporal-web-ui',
    command: options.program,
    args: ['--root', '/', '--config', options.dir, '--env', 'embedded', 'start'],
    home: options.home,
  });
  await program.whenReady(async () => {
    const reply = await fetch(`${url}/api/v1/namespaces/${options.namespace}`);
    if (!reply.ok) throw new Error(`Web UI answers ${reply.status}`);
  });
  return { pid: program.pid, ended: program.ended, url, stop: () => program.stop() };
}
