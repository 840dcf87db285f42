export { sandboxSession } from './session.ts';
export { sandboxTools } from './tools.ts';
