/** A node of a statement that Postgres has analysed: its type and its fields. */
export interface TreeNode {
  type: string;
  fields: Record<string, TreeValue>;
}

/** Null: the field is empty. A field with several values is a list. */
export type TreeValue = TreeNode | TreeValue[] | string | null;

/**
 * Reads the text of a `pg_node_tree`, as of `pg_proc.prosqlbody`: `{TYPE :field value …}`, lists in parentheses, `<>`
 * for an empty value, and a backslash before special characters of a text.
 */
export function readNodeTree(text: string): TreeValue {
  const tokens = text.match(/[{}()[\]]|"(?:\\.|[^"\\])*"|(?:\\.|[^\s{}()[\]\\])+/gs) ?? [];
  let at = 0;
  const value = (): TreeValue => {
    const token = tokens[at++]!;
    if (token === '{') return node();
    if (token === '(') return list(')');
    if (token === '[') return list(']');
    if (token === '<>') return null;
    return (token.startsWith('"') ? token.slice(1, -1) : token).replace(/\\(.)/gs, '$1');
  };
  const list = (end: string): TreeValue[] => {
    const items: TreeValue[] = [];
    while (tokens[at] !== end) items.push(value());
    at += 1;
    return items;
  };
  const node = (): TreeNode => {
    const type = tokens[at++]!;
    const fields: TreeNode['fields'] = {};
    while (tokens[at] !== '}') {
      const name = tokens[at++]!.slice(1);
      const values: TreeValue[] = [];
      while (tokens[at] !== '}' && !tokens[at]!.startsWith(':')) values.push(value());
      // The position in the text.
      if (name !== 'location') fields[name] = values.length === 1 ? values[0]! : values;
    }
    at += 1;
    return { type, fields };
  };
  return value();
}
