import fs from 'node:fs';
import path from 'node:path';
import { ChildProgram, type ProgramEnd, type ProgramHome } from './child-program.ts';

export interface EmbeddedRegistry {
  pid: number;
  ended: Promise<ProgramEnd>;
  /** `127.0.0.1:<port>`, plain HTTP. */
  address: string;
  stop(): Promise<void>;
}

/**
 * Starts Debian's OCI distribution registry on loopback, with its blobs in the data folder.
 * @throws {ProgramError} when it does not get ready
 */
export async function startRegistry(options: {
  dir: string;
  home: ProgramHome;
  port: number;
}): Promise<EmbeddedRegistry> {
  const address = `127.0.0.1:${options.port}`;
  fs.mkdirSync(options.dir, { recursive: true });
  const configFile = path.join(options.dir, 'config.json');
  // YAML, of which JSON is a part.
  fs.writeFileSync(
    configFile,
    JSON.stringify({
      version: '0.1',
      log: { level: 'warn', accesslog: { disabled: true } },
      storage: {
        filesystem: { rootdirectory: path.join(options.dir, 'blobs') },
        delete: { enabled: true },
        cache: { blobdescriptor: 'inmemory' },
      },
      http: { addr: address },
    }),
  );
  const program = await ChildProgram.start({
    name: 'registry',
    command: 'docker-registry',
    args: ['serve', configFile],
    home: options.home,
  });
  await program.whenReady(async () => {
    const reply = await fetch(`http://${address}/v2/`);
    if (!reply.ok) throw new Error(`registry answers ${reply.status}`);
  });
  return { pid: program.pid, ended: program.ended, address, stop: () => program.stop() };
}
