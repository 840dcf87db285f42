import { Sandbox } from '../../../clients/typescript/src/index.ts';

/** Uses a sandbox of the platform of `PLATFORM_URL` as a program does, and prints what it got. */
const sandbox = await Sandbox.create({ timeoutSeconds: 3600 });
await sandbox.files.write('/root/square.py', 'import sys; print(int(sys.argv[1]) ** 2)\n');
const { stdout } = await sandbox.commands.run('python3 /root/square.py 12');
await sandbox.pause();
await sandbox.resume();
const text = await sandbox.files.read('/root/square.py');
await sandbox.delete();
console.log(JSON.stringify({ stdout, text }));
