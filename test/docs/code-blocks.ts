import fs from 'node:fs';
import path from 'node:path';

const root = path.resolve(import.meta.dirname, '../..');

/** A code block on a page. */
export interface CodeBlock {
  page: string;
  line: number;
  /** The first word after the fence. */
  language: string;
  /** The other words: the operation whose reply a `json` block shows. */
  about: string[];
  source: string;
  /** The reason in `<!-- not run: … -->` before the block. */
  notRun: string | null;
  /**
   * The content of the following `output` block: the output of this block, in which `…` matches any text in its line.
   */
  output: string | null;
}

/** Pages whose blocks must all run. */
export function documentationPages(): string[] {
  const docs = fs.globSync('docs/{,guides/}*.md', { cwd: root });
  const clients = fs.globSync('clients/{,*/}README.md', { cwd: root });
  return ['README.md', 'CONTRIBUTING.md', ...docs, ...clients].sort();
}

/** @throws if a code fence has no language, or an `output` block follows no block */
export function readCodeBlocks(page: string): CodeBlock[] {
  const blocks: CodeBlock[] = [];
  const lines = fs.readFileSync(path.join(root, page), 'utf8').split('\n');
  let open: { block: CodeBlock; indent: string; fence: string; lines: string[] } | null = null;
  for (const [index, line] of lines.entries()) {
    const where = `${page}:${index + 1}`;
    const [, indent = '', fence, info = ''] = /^( *)(`{3,})(.*)$/.exec(line) ?? [];
    if (open) {
      if (fence !== open.fence) open.lines.push(line.replace(new RegExp(`^ {0,${open.indent.length}}`), ''));
      else {
        finish(blocks, { ...open.block, source: open.lines.map((each) => `${each}\n`).join('') });
        open = null;
      }
    } else if (fence) {
      const [language, ...about] = info.trim().split(/\s+/);
      if (!language) throw new Error(`${where}: name the language of the block behind its fence`);
      const notRun = /^\s*<!-- not run: (.*\S) -->$/.exec(lines[index - 1] ?? '')?.[1] ?? null;
      const block = { page, line: index + 1, language, about, source: '', notRun, output: null };
      open = { block, indent, fence, lines: [] };
    } else if (/^ {4}\S/.test(line) && (lines[index - 1] ?? '').trim() === '') {
      throw new Error(`${where}: put the code between fences with a language, instead of indenting it`);
    }
  }
  if (open) throw new Error(`${page}:${open.block.line}: the block has no end`);
  return blocks;
}

function finish(blocks: CodeBlock[], block: CodeBlock): void {
  if (block.language !== 'output') {
    blocks.push(block);
    return;
  }
  const before = blocks.at(-1);
  if (!before || before.output !== null || before.notRun !== null) {
    throw new Error(`${block.page}:${block.line}: there is no block that this is the output of`);
  }
  before.output = block.source;
}

/** A pattern for the output of a block. */
export function outputPattern(output: string): RegExp {
  const escaped = output.trimEnd().replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&');
  return new RegExp(`^${escaped.replaceAll('…', '.*')}\\s*$`);
}

/** Compares what a block printed with its `output` block, if it has one. */
export function expectOutput({ page, line, output }: CodeBlock, printed: string): void {
  if (output === null) return;
  expect(`${page}:${line}\n${printed}`).toMatch(
    new RegExp(`^${page}:${line}\\n${outputPattern(output).source.slice(1)}`),
  );
}
