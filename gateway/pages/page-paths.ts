import { type AgentProcedure, agentProcedures, type PageName, pageNames } from './agent-procedures.ts';

/** The target of a path of the web pages. */
export type PagePath =
  | { kind: 'document'; page: PageName }
  | { kind: 'asset'; page: PageName; name: string }
  /** POST opens a session with the access token. GET tells whether a session exists. */
  | { kind: 'session'; page: PageName }
  | { kind: 'agent'; page: PageName; procedure: AgentProcedure; target: string }
  /** An unknown path below a page. */
  | { kind: 'nothing'; page: PageName };

/**
 * Reads the target of a request to a sandbox's own host name. Null: it is not a path of a web page. Only these exact
 * spellings belong to a page. Every other target goes to the agent without the session.
 */
export function readPagePath(target: string): PagePath | null {
  const path = target.split('?', 1)[0]!;
  const page = pageNames.find((name) => path === `/${name}` || path.startsWith(`/${name}/`));
  if (!page) return null;
  const rest = path.slice(page.length + 2);
  if (rest === '') return { kind: 'document', page };
  if (rest === 'session') return { kind: 'session', page };
  if (rest.startsWith('assets/')) return { kind: 'asset', page, name: rest.slice('assets/'.length) };
  if (rest.startsWith('agent/')) {
    const name = rest.slice('agent/'.length);
    for (const procedure of agentProcedures[page]) {
      if (procedure.kind === 'download' && name.startsWith('download/')) {
        return { kind: 'agent', page, procedure, target: `/${name}` };
      }
      if (name === procedure.name) return { kind: 'agent', page, procedure, target: procedure.target };
    }
  }
  return { kind: 'nothing', page };
}
