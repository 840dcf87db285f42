import { runHelper } from '../../helper-process.ts';
import { MountHelper } from './mount-helper.ts';

/** The mount helper: it puts mounts of object storage into the sandboxes of its node, in a privileged pod. */
await runHelper('mount helper', (options) => new MountHelper(options));
