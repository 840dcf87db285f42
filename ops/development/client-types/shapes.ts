/** A type in a form for the clients of all languages. */
export type Shape =
  | { kind: 'primitive'; name: 'string' | 'integer' | 'number' | 'boolean' | 'null' | 'unknown' }
  | { kind: 'literals'; values: (string | number | boolean)[] }
  | { kind: 'array'; of: Shape }
  | { kind: 'map'; of: Shape }
  | { kind: 'union'; of: Shape[] }
  | { kind: 'named'; name: string }
  | { kind: 'object'; fields: Field[] };

export interface Field {
  name: string;
  shape: Shape;
  required: boolean;
  comment: string | null;
}

export interface Declaration {
  name: string;
  shape: Shape;
}

/** A request of the API: its input, and the `data` of the reply. */
export interface Operation {
  id: string;
  method: string;
  path: string;
  body: string | null;
  query: string | null;
  data: string;
}

/** A procedure of the agent. */
export interface Procedure {
  /** `Filesystem/Stat` */
  name: string;
  isStream: boolean;
  input: string;
  output: string;
}

export interface ApiTypes {
  declarations: Declaration[];
  operations: Operation[];
}

export interface AgentTypes {
  declarations: Declaration[];
  procedures: Procedure[];
}
