import { startFloodedSandboxes } from '../floods/flooded-sandboxes.ts';

/** Runs the sandboxes of the floods in their own process until the parent disconnects. Sends their routes to it. */
const { routes } = await startFloodedSandboxes();
process.send!(routes);
process.on('disconnect', () => process.exit(0));
