/** A port of a sandbox (section 2.3). */
export interface Port {
  port: number;
  servicePort: number;
  protocol: 'TCP' | 'UDP' | 'WEBRTC';
  name: string;
  isProtected: boolean;
}

/** What a sandbox serves: its template's ports and its own; its own one wins where both name the same. */
export function unionOfPorts(templatePorts: readonly Port[], customPorts: readonly Port[]): Port[] {
  const taken = new Set(customPorts.map((item) => item.port));
  return [...templatePorts.filter((item) => !taken.has(item.port)), ...customPorts];
}
