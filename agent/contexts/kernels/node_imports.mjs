import { parse } from 'acorn';

/**
 * Converts static imports to dynamic ones, relative to the context's folder, and exports to plain declarations, because
 * V8's REPL mode runs scripts, which support neither. Code that does not parse is returned unchanged, so that V8
 * reports the error.
 */
export function rewriteImports(code) {
  let program;
  try {
    program = parse(code, { ecmaVersion: 'latest', sourceType: 'module', allowHashBang: true });
  } catch {
    return code;
  }
  const edits = [];
  const replace = ({ start, end }, text) => edits.push({ start, end, text });
  for (const statement of program.body) {
    switch (statement.type) {
      case 'ImportDeclaration':
        replace(statement, importStatement(statement));
        break;
      case 'ExportNamedDeclaration':
        if (statement.declaration) replace({ start: statement.start, end: statement.declaration.start }, '');
        else if (statement.source) replace(statement, `await __import__(${statement.source.raw});`);
        else replace(statement, '');
        break;
      case 'ExportDefaultDeclaration':
        replace({ start: statement.start, end: statement.declaration.start }, '');
        break;
      case 'ExportAllDeclaration':
        replace(statement, `await __import__(${statement.source.raw});`);
        break;
    }
  }
  walk(program, (node) => {
    if (node.type === 'ImportExpression')
      replace({ start: node.start, end: node.start + 'import'.length }, '__import__');
    else if (node.type === 'MetaProperty' && node.meta.name === 'import') replace(node, '__import__.meta');
  });
  let rewritten = code;
  for (const { start, end, text } of edits.sort((a, b) => b.start - a.start)) {
    rewritten = rewritten.slice(0, start) + text + rewritten.slice(end);
  }
  return rewritten;
}

function importStatement({ specifiers, source, attributes }) {
  const pairs = (attributes ?? []).map(({ key, value }) => `${key.raw ?? key.name}: ${value.raw}`);
  const options = pairs.length > 0 ? `, { with: { ${pairs.join(', ')} } }` : '';
  const imported = `await __import__(${source.raw}${options})`;
  if (specifiers.length === 0) return `${imported};`;
  const namespace = specifiers.find(({ type }) => type === 'ImportNamespaceSpecifier');
  const names = specifiers
    .filter((specifier) => specifier !== namespace)
    .map(({ type, local, imported: name }) =>
      type === 'ImportDefaultSpecifier' ? `default: ${local.name}` : `${name.raw ?? name.name}: ${local.name}`,
    );
  if (!namespace) return `const { ${names.join(', ')} } = ${imported};`;
  const rest = names.length > 0 ? ` const { ${names.join(', ')} } = ${namespace.local.name};` : '';
  return `const ${namespace.local.name} = ${imported};${rest}`;
}

function walk(node, visit) {
  if (typeof node !== 'object' || node === null) return;
  if (Array.isArray(node)) {
    for (const each of node) walk(each, visit);
    return;
  }
  if (typeof node.type === 'string') visit(node);
  for (const [key, value] of Object.entries(node))
    if (key !== 'source' || node.type !== 'ImportDeclaration') walk(value, visit);
}
