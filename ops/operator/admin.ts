import { runAdmin } from './admin/run-admin.ts';

/** `npm run admin -- <command> …`: actions that only the operator of a platform may take. */
const { status, stdout = '', stderr = '' } = await runAdmin(process.argv.slice(2), process.env);
process.stdout.write(stdout);
process.stderr.write(stderr);
// What a failed command has left open must not keep the process.
if (status !== 0) process.exit(status);
