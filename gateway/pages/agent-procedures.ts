export const pageNames = ['terminal', 'files'] as const;
export type PageName = (typeof pageNames)[number];

/** A procedure of the agent that a page may call. */
export interface AgentProcedure {
  kind: 'unary' | 'stream' | 'upload' | 'download';
  /** The path below `/<page>/agent/`. */
  name: string;
  /** The path at the agent. */
  target: string;
}

const unary = (name: string): AgentProcedure => ({ kind: 'unary', name, target: `/sandboxagent.${name}` });
const stream = (name: string): AgentProcedure => ({ kind: 'stream', name, target: `/sandboxagent.${name}` });

/** The procedures of each page. A page can call no other procedure of the agent. */
export const agentProcedures: Readonly<Record<PageName, readonly AgentProcedure[]>> = {
  terminal: [
    ...['Start', 'Connect'].map((name) => stream(`Process/${name}`)),
    ...['SendInput', 'SendSignal', 'Update'].map((name) => unary(`Process/${name}`)),
  ],
  files: [
    ...['Stat', 'ListDir', 'MakeDir', 'Move', 'Remove'].map((name) => unary(`Filesystem/${name}`)),
    { kind: 'upload', name: 'upload', target: '/upload' },
    { kind: 'download', name: 'download/', target: '/download/' },
  ],
};

/** The HTTP methods of each kind of call. */
export const allowedMethods: Readonly<Record<AgentProcedure['kind'], readonly string[]>> = {
  unary: ['POST'],
  stream: ['POST'],
  upload: ['POST'],
  download: ['GET', 'HEAD'],
};
