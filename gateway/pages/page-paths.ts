import { type AgentProcedure, agentProcedures } from './agent-calls.ts';

export const pageNames = ['terminal', 'files'] as const;
export type PageName = (typeof pageNames)[number];

/** What a path of the web pages asks for. */
export type PagePath =
  | { kind: 'document'; page: PageName }
  | { kind: 'asset'; page: PageName; name: string }
  /** POST opens a session with the access token; GET says whether there is one. */
  | { kind: 'session'; page: PageName }
  | { kind: 'agent'; page: PageName; procedure: AgentProcedure; target: string }
  /** Below a page, where there is nothing. */
  | { kind: 'nothing'; page: PageName };

/**
 * Reads the target of a request to a sandbox's own name. Null: it is not for a web page. Only these exact spellings
 * are of a page; any other goes to the agent, and without the session.
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
