import { useState } from 'react';

const name = 'console-theme';

/** The theme that the person has chosen: `light`, `dark`, or `auto` as the system. */
export function useTheme(): [theme: string, setTheme: (theme: string) => void] {
  const [theme, setTheme] = useState(readTheme);
  const change = (next: string) => {
    if (next === 'auto') localStorage.removeItem(name);
    else localStorage.setItem(name, next);
    applyTheme();
    setTheme(next);
  };
  return [theme, change];
}

export function applyTheme(): void {
  document.documentElement.dataset.theme = readTheme();
}

function readTheme(): string {
  return localStorage.getItem(name) ?? 'auto';
}
