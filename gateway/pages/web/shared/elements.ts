/** Makes an element with texts or other elements in it. Text is never parsed as HTML. */
export function element<Name extends keyof HTMLElementTagNameMap>(
  name: Name,
  properties: Partial<HTMLElementTagNameMap[Name]> = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[Name] {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

export function button(label: string, onClick: () => void): HTMLButtonElement {
  const made = element('button', { type: 'button', textContent: label });
  made.addEventListener('click', onClick);
  return made;
}

/** The bar at the top of a page: its title, its state, its actions. */
export function topBar(
  other: { href: string; label: string },
  ...tools: Node[]
): { bar: HTMLElement; status: HTMLElement } {
  const [sandbox = ''] = location.hostname.split('.');
  const status = element('span', { className: 'status', role: 'status' });
  const link = element('a', { href: other.href, textContent: other.label });
  const bar = element('header', {}, element('h1', { textContent: sandbox }), status, ...tools, link);
  return { bar, status };
}
