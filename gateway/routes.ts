import type { SandboxId } from '../domain/ids.ts';

/** One port of a sandbox, as far as the gateway needs it. */
export interface RoutePort {
  /** The number callers use in `<port>-<sandbox_domain>`. */
  port: number;
  /** The number the service listens on inside the sandbox. */
  servicePort: number;
  protocol: 'TCP' | 'UDP' | 'WEBRTC';
  isProtected: boolean;
}

/** The place of a sandbox and who may reach it. */
export interface SandboxRoute {
  sandboxId: SandboxId;
  /** Only `running` sandboxes are served. */
  status: string;
  /** The host that it is on; null before it is placed. */
  hostId: string | null;
  /** IPv4 address on the host's link; null before the sandbox is placed and after it has ended. */
  address: string | null;
  agentPort: number;
  /** Undeclared ports need the access token, too. */
  secure: boolean;
  accessToken: string | null;
  /** Its owner is disabled: only public ports are served. */
  isLocked: boolean;
  ports: RoutePort[];
}

/** The source of routes: one query by id. */
export interface RouteSource {
  /** The route of a sandbox; null when there is none with that id. Rejects when it cannot be read now. */
  find(sandboxId: SandboxId): Promise<SandboxRoute | null>;
}

/** Routes that also report possible changes. */
export interface RouteTable extends RouteSource {
  /**
   * Call when nothing answers where a route led. Forgets the route unless it was just looked up; true when it did, so
   * that another look-up may give a new result.
   */
  suspect(sandboxId: SandboxId): boolean;
  /** Calls back with the id of a sandbox whose route may have changed, or with null when any may have. */
  onChange(listener: (sandboxId: SandboxId | null) => void): void;
}

/** Announcements of changed routes. While it is not `live`, changes may be missed. */
export interface RouteChanges {
  readonly live: boolean;
  onChange(listener: (sandboxId: SandboxId) => void): void;
  /** Called after `live` has changed. */
  onLiveChange(listener: (live: boolean) => void): void;
}
