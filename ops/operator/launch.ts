import path from 'node:path';
import { heapFlags } from '../../platform/config/heap-limits.ts';

/**
 * `node ops/operator/launch.ts <script> [arguments]`: becomes `node <script>` with the heap limits of that script, with
 * the same process id. For service managers; the supervisor of `npm start` itself passes the same options.
 */
const [script, ...args] = process.argv.slice(2);
if (!script || !process.execve) {
  console.error(
    script ? 'This Node has no process.execve.' : 'Usage: node ops/operator/launch.ts <script> [arguments]',
  );
  process.exit(2);
}
const file = path.resolve(import.meta.dirname, '../..', script);
process.execve(process.execPath, [process.execPath, ...heapFlags(script), file, ...args], process.env);
