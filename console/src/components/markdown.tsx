import { Lexer, type MarkedToken, type Token, type Tokens } from 'marked';
import { Fragment, type ReactNode, useMemo } from 'react';
import { visibleText } from '../format/text.ts';
import './markdown.css';

/** Time to read emphasis grows with the square of a paragraph, so a longer one is shown as it is written. */
const maxParagraph = 4000;
/** Lists in lists beyond this are shown as they are written. */
const maxDepth = 20;

/**
 * A document of somebody else. `marked` only reads it; what it finds becomes elements of React, never HTML. Links lead to
 * the web and to mail only, and nothing is loaded from elsewhere.
 */
export function Markdown(props: { text: string }) {
  const tokens = useMemo(() => readMarkdown(props.text), [props.text]);
  return (
    <div className="markdown" dir="auto">
      {tokens ? <Blocks tokens={tokens} depth={0} /> : <pre>{visibleText(props.text)}</pre>}
    </div>
  );
}

/** As `Lexer.lex`, with a limit on the length of a paragraph. Null: it is nested too deeply. */
function readMarkdown(text: string): Token[] | null {
  const lexer = new Lexer({ gfm: true });
  try {
    lexer.blockTokens(text.replace(/\r\n?/g, '\n'), lexer.tokens);
    for (const { src, tokens } of lexer.inlineQueue) {
      if (src.length <= maxParagraph) lexer.inlineTokens(src, tokens);
      else tokens.push({ type: 'text', raw: src, text: src });
    }
    return lexer.tokens;
  } catch (error) {
    if (error instanceof RangeError) return null;
    throw error;
  }
}

function Blocks(props: { tokens: readonly Token[]; depth: number }) {
  return each(props.tokens, (token) => <Block token={token as MarkedToken} depth={props.depth + 1} />);
}

function Block({ token, depth }: { token: MarkedToken; depth: number }): ReactNode {
  if (depth > maxDepth) return <pre>{visibleText(token.raw)}</pre>;
  switch (token.type) {
    case 'space':
    case 'def':
      return null;
    case 'heading':
      return <Heading token={token} />;
    case 'paragraph':
      return (
        <p>
          <Inlines tokens={token.tokens} />
        </p>
      );
    case 'code':
      return (
        <pre>
          <code>{visibleText(token.text)}</code>
        </pre>
      );
    case 'blockquote':
      return (
        <blockquote>
          <Blocks tokens={token.tokens} depth={depth} />
        </blockquote>
      );
    case 'list': {
      const items = each(token.items, ({ tokens }) => (
        <li>
          <Blocks tokens={tokens} depth={depth} />
        </li>
      ));
      return token.ordered ? <ol start={token.start === '' ? 1 : token.start}>{items}</ol> : <ul>{items}</ul>;
    }
    case 'table':
      return <Table token={token} />;
    case 'hr':
      return <hr />;
    case 'html':
      return <pre>{visibleText(token.text)}</pre>;
    default:
      return <Inline token={token} isInLink={false} />;
  }
}

/** The headings of a document stand below those of the page. */
function Heading({ token }: { token: Tokens.Heading }) {
  const Level = `h${Math.min(token.depth + 2, 6)}` as 'h3';
  return (
    <Level>
      <Inlines tokens={token.tokens} />
    </Level>
  );
}

function Table({ token }: { token: Tokens.Table }) {
  return (
    <div className="markdown-table">
      <table>
        <thead>
          <tr>
            {each(token.header, ({ tokens }) => (
              <th scope="col">
                <Inlines tokens={tokens} />
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {each(token.rows, (row) => (
            <tr>
              {each(row, ({ tokens }) => (
                <td>
                  <Inlines tokens={tokens} />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Inlines(props: { tokens: readonly Token[]; isInLink?: boolean }) {
  return each(props.tokens, (token) => <Inline token={token as MarkedToken} isInLink={props.isInLink ?? false} />);
}

function Inline({ token, isInLink }: { token: MarkedToken; isInLink: boolean }): ReactNode {
  switch (token.type) {
    case 'strong':
      return (
        <strong>
          <Inlines tokens={token.tokens} isInLink={isInLink} />
        </strong>
      );
    case 'em':
      return (
        <em>
          <Inlines tokens={token.tokens} isInLink={isInLink} />
        </em>
      );
    case 'del':
      return (
        <del>
          <Inlines tokens={token.tokens} isInLink={isInLink} />
        </del>
      );
    case 'codespan':
      return <code>{visibleText(token.text)}</code>;
    case 'br':
      return <br />;
    case 'checkbox':
      return token.checked ? '☑ ' : '☐ ';
    case 'link':
      return (
        <OutsideLink href={token.href}>
          <Inlines tokens={token.tokens} isInLink />
        </OutsideLink>
      );
    case 'image': {
      const text = shown(token.text) || 'Image';
      return isInLink ? text : <OutsideLink href={token.href}>{text}</OutsideLink>;
    }
    case 'text':
      return token.tokens ? <Inlines tokens={token.tokens} isInLink={isInLink} /> : shown(token.text);
    case 'escape':
      return visibleText(token.text);
    default:
      return visibleText(token.raw);
  }
}

function OutsideLink(props: { href: string; children: ReactNode }) {
  const url = URL.parse(decoded(props.href));
  if (!url || !['http:', 'https:', 'mailto:'].includes(url.protocol)) return props.children;
  return (
    <a href={url.href} title={url.href} target="_blank" rel="noopener noreferrer nofollow">
      {props.children}
    </a>
  );
}

const shown = (text: string) => visibleText(decoded(text));

const named = new Map(Object.entries({ amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: '\u00a0' }));

/** The text with character references, which `marked` leaves to HTML, as characters. */
function decoded(text: string): string {
  return text.replace(/&(?:#(\d{1,7})|#[xX]([\da-fA-F]{1,6})|(\w{1,8}));/g, (reference, decimal, hex, name) => {
    if (name) return named.get(name) ?? reference;
    const code = decimal ? Number(decimal) : Number.parseInt(hex, 16);
    return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : '\ufffd';
  });
}

function each<Item>(items: readonly Item[], show: (item: Item) => ReactNode): ReactNode {
  // biome-ignore lint/suspicious/noArrayIndexKey: the parts of a text keep their places
  return items.map((item, index) => <Fragment key={index}>{show(item)}</Fragment>);
}
