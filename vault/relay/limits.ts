/** What a relay gives to whom, so that no one can take it all. */
export interface RelayLimits {
  /** Connections at once, of everyone. */
  readonly maxConnections: number
  /** Connections at once from one address. */
  readonly maxConnectionsPerIp: number
  /** New connections a minute from one address. */
  readonly connectsPerMinutePerIp: number
  /** Frames a second from one address, and as many at once; more wait. */
  readonly framesPerSecondPerIp: number
  /** Routing ids one vault's connection may hold. */
  readonly maxRoutesPerVault: number
  /** Connections that may share one routing id. */
  readonly maxAgentsPerRoute: number
  /** Bytes that may wait for one receiver before senders to it are held back, or a slow agent is let go. */
  readonly maxBufferedBytes: number
  /** Bytes that may wait for all receivers together. */
  readonly maxTotalBufferedBytes: number
  /** How long a connection may say nothing about what it is, in milliseconds. */
  readonly identifyMs: number
  /** Between two pings, in milliseconds; who misses one is let go. */
  readonly pingMs: number
}

export const defaultRelayLimits: RelayLimits = {
  maxConnections: 4096,
  maxConnectionsPerIp: 256,
  connectsPerMinutePerIp: 240,
  framesPerSecondPerIp: 500,
  maxRoutesPerVault: 256,
  maxAgentsPerRoute: 16,
  maxBufferedBytes: 2 * 1024 * 1024,
  maxTotalBufferedBytes: 256 * 1024 * 1024,
  identifyMs: 10_000,
  pingMs: 30_000,
}
