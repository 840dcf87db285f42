/** A line of a program's output, and its time since the start. */
export interface PrintedLine {
  text: string;
  afterMs: number;
}

const [lineHeight, fontSize, margin] = [21, 14, 20];
/** The width of a letter. Fonts differ a little. */
const letterWidth = 8.45;

/**
 * An SVG of a terminal: a program, the command that runs it, and its output lines at their times. Viewers without
 * animation show all lines.
 */
export function terminalPicture(program: string, command: string, printed: PrintedLine[]): string {
  const source = program.trimEnd().split('\n');
  const rows: { text: string; style: string; afterMs?: number }[] = [
    ...source.map((text) => ({ text, style: /^\s*(import|\/\/)/.test(text) ? 'faint' : 'code' })),
    { text: '', style: 'code' },
    { text: `$ ${command}`, style: 'command' },
    ...printed.map(({ text, afterMs }) => ({ text, style: 'printed', afterMs })),
  ];
  const width = Math.ceil(2 * margin + letterWidth * Math.max(...rows.map(({ text }) => text.length)));
  const height = 44 + rows.length * lineHeight + margin;
  const texts = rows.map(({ text, style, afterMs }, index) => {
    const y = 44 + (index + 1) * lineHeight - 5;
    const when = afterMs === undefined ? '' : ` style="animation-delay: ${(1 + afterMs / 1000).toFixed(2)}s"`;
    return `  <text class="${style}" x="${margin}" y="${y}"${when}>${escaped(text)}</text>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img" aria-label="A program and what it prints">
  <title>A program and what it prints</title>
  <style>
    text { font: ${fontSize}px ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace; white-space: pre }
    .code { fill: #d8dee9 } .faint { fill: #8b95a7 } .command { fill: #8fbcff; font-weight: bold }
    .printed { fill: #a3d9a5; animation: appear 0.01s both } @keyframes appear { from { opacity: 0 } to { opacity: 1 } }
  </style>
  <rect width="${width}" height="${height}" rx="10" fill="#1b2028"/>
  <rect width="${width}" height="32" rx="10" fill="#2a313c"/><rect y="20" width="${width}" height="12" fill="#2a313c"/>
  <circle cx="20" cy="16" r="5" fill="#ff6b61"/><circle cx="38" cy="16" r="5" fill="#f6be50"/><circle cx="56" cy="16" r="5" fill="#5fc454"/>
${texts.join('\n')}
</svg>
`;
}

/** The output lines in a picture. */
export function linesOfPicture(svg: string): string[] {
  const texts = [...svg.matchAll(/<text [^>]*>([^<]*)<\/text>/g)].map(([, text]) => text!);
  return texts.map((text) => text.replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&'));
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
