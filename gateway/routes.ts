import type { SandboxId } from '../domain/ids.ts';

/** One port object of a sandbox, as far as the gateway needs it. */
export interface RoutePort {
  /** The number callers use in `<port>-<sandbox_domain>`. */
  port: number;
  /** The number the service listens on inside the sandbox. */
  servicePort: number;
  protocol: 'TCP' | 'UDP' | 'WEBRTC';
  isProtected: boolean;
}

/** Where a sandbox is and who may reach it. */
export interface SandboxRoute {
  sandboxId: SandboxId;
  /** Only `running` is served. */
  status: string;
  /** IPv4 address on the host's bridge; null before it is placed and after it is gone. */
  address: string | null;
  agentPort: number;
  /** Ports that are not declared ask for the access token too. */
  secure: boolean;
  accessToken: string | null;
  /** Its owner is disabled: only public ports are served. */
  isLocked: boolean;
  ports: RoutePort[];
}

/** Where routes come from: one query by id. */
export interface RouteSource {
  /** The route of a sandbox, null when there is none by that id. Rejects when it cannot be known now. */
  find(sandboxId: SandboxId): Promise<SandboxRoute | null>;
}

/** Routes that also report when one may have changed. */
export interface RouteTable extends RouteSource {
  /**
   * Nothing was reached where a route led. Forgets the route unless it was looked up just now; true when it did, so
   * that another look-up may give a new result.
   */
  suspect(sandboxId: SandboxId): boolean;
  /** Calls back with the id of a sandbox whose route may have changed, or null when any may have. */
  onChange(listener: (sandboxId: SandboxId | null) => void): void;
}

/** News of changed routes. While it is not `live`, changes may be missed. */
export interface RouteChanges {
  readonly live: boolean;
  onChange(listener: (sandboxId: SandboxId) => void): void;
  /** Called after `live` has turned. */
  onLiveChange(listener: (live: boolean) => void): void;
}
