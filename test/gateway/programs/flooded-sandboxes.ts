import { startFloodedSandboxes } from '../floods/flooded-sandboxes.ts';

/** The sandboxes of the floods in a process of their own, until the parent disconnects. Sends their routes. */
const { routes } = await startFloodedSandboxes();
process.send!(routes);
process.on('disconnect', () => process.exit(0));
