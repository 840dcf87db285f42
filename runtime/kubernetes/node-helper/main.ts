import { runHelper } from '../helper-process.ts';
import { NodeHelper } from './node-helper.ts';

/** The node helper: it freezes and thaws the sandboxes of its node. */
await runHelper('node helper', (options) => new NodeHelper(options));
