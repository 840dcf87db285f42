import type { SandboxId } from '../domain/ids.ts';

/** The fields of a sandbox's port that the gateway needs. */
export interface RoutePort {
  /** The number in `<port>-<sandbox_domain>`. */
  port: number;
  /** The number the service listens on inside the sandbox. */
  servicePort: number;
  protocol: 'TCP' | 'UDP' | 'WEBRTC';
  isProtected: boolean;
}

/** The place of a sandbox and its access rules. */
export interface SandboxRoute {
  sandboxId: SandboxId;
  /** Only `running` sandboxes are served. */
  status: string;
  /** The host of the sandbox. Null before it is placed. */
  hostId: string | null;
  /** IPv4 address on the host's link. Null before the sandbox is placed and after it has ended. */
  address: string | null;
  agentPort: number;
  /** Undeclared ports need the access token too, unless they are public. */
  secure: boolean;
  /** Undeclared ports are public, except those of the agent. */
  publicPorts: boolean;
  accessToken: string | null;
  /** The token for the agent's platform paths. */
  platformToken: string;
  /** The owner of the sandbox is disabled, so only public ports are served. */
  isLocked: boolean;
  ports: RoutePort[];
}

/** A source of routes, queried by id. */
export interface RouteSource {
  /** The route of a sandbox. Null when the id is unknown. Rejects when the source is unreadable now. */
  find(sandboxId: SandboxId): Promise<SandboxRoute | null>;
}

/** A source of routes that also reports possible changes. */
export interface RouteTable extends RouteSource {
  /**
   * Call this when the address of a route is unreachable. Drops the route unless it was just looked up. Returns true
   * when it was dropped, so that another lookup may give a new result.
   */
  dropUnlessNew(sandboxId: SandboxId): boolean;
  /**
   * Calls back with the id of a sandbox whose route may have changed, or with null when all routes may have changed.
   */
  onChange(listener: (sandboxId: SandboxId | null) => void): void;
}

/** Announcements of changed routes. While it is not `live`, announcements may be lost. */
export interface RouteChanges {
  readonly live: boolean;
  onChange(listener: (sandboxId: SandboxId) => void): void;
  /** Called after `live` has changed. */
  onLiveChange(listener: (live: boolean) => void): void;
}
