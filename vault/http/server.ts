import { randomBytes } from 'node:crypto'
import { chmodSync, existsSync, renameSync, rmSync, statSync } from 'node:fs'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { dirname, join } from 'node:path'
import type { Log } from '../../core/ports/log.ts'
import { isToken } from '../agents/agents.ts'
import { VaultError } from '../errors/error.ts'
import { type Caller, createFailureRate } from '../host/caller.ts'
import type { VaultApi } from '../host/createVaultApi.ts'
import {
  abortOf,
  assertNoForeignPage,
  endStalled,
  hostsOf,
  readBodyText,
  requestIdOf,
} from '../loopback/callers.ts'
import { isOpenPath } from '../operations/table.ts'
import { createDispatch, errorReply, type VaultReply } from './dispatch.ts'
import { streamEvents } from './streamEvents.ts'

/** Serves all paths below a path of its own, such as `/mcp` or the approvals page, behind the same guard. */
export interface Mount {
  /** `/mcp`: that path and everything below it. */
  readonly path: string
  /** True for a page. The vault's own origin may then call it, and the page may call the API. */
  readonly isPage: boolean
  handle(req: IncomingMessage, res: ServerResponse, caller: Caller): void | Promise<void>
}

export interface VaultServerOptions {
  readonly host: string
  /** Null: there is no port, and only the owner is served, on the socket. */
  readonly port: number | null
  /** Path of the owner's Unix socket, created with mode 0600. Undefined: no socket. */
  readonly socketPath?: string
  /**
   * True if the socket is in the vault's folder, which this process has locked. If another process still listens on the socket,
   * that process has lost the folder.
   */
  readonly isSocketInHome?: boolean
  /** The agent as which requests without a token act, for test suites only. */
  readonly tokenlessAgent?: string
  readonly mounts?: readonly Mount[]
}

export interface VaultServer {
  /** Port 0 where there is no port. */
  readonly address: Pick<AddressInfo, 'address' | 'port'>
  close(): Promise<void>
}

/** Maximum open streams per agent. A client needs one, and each uses a connection. */
const MAX_STREAMS_PER_AGENT = 8
/** Maximum open TCP connections in total. File descriptors must remain for the owner's socket and the vault's files. */
const MAX_CONNECTIONS = 512

const loopback = new Set(['127.0.0.1', '::1', 'localhost'])

/**
 * Serves a vault on loopback for agents and on a Unix socket for its owner, never on another address. Remote agents connect
 * through the relay.
 *
 * @throws {Error} for an address that is not loopback, or a port or socket that is in use
 */
export async function startVaultServer(
  api: VaultApi,
  log: Log,
  options: VaultServerOptions,
): Promise<VaultServer> {
  if (!loopback.has(options.host))
    throw new Error(`Expected a loopback address to listen on (127.0.0.1, ::1), got ${options.host}.`)
  const dispatch = createDispatch(api, log)
  const failures = createFailureRate()
  const hasPage = options.mounts?.some(({ isPage }) => isPage) ?? false
  let port = 0
  let hosts: ReadonlySet<string> = new Set()
  const web = createServer(timeouts, (req, res) => void onWeb(req, res))
  const own = createServer(timeouts, (req, res) => void onSocket(req, res))
  web.maxConnections = MAX_CONNECTIONS
  endStalled(web)
  const streams = new Map<string, number>()
  // Upgrades are never accepted.
  for (const server of [web, own]) server.on('upgrade', (_req, socket) => socket.destroy())
  if (options.port !== null) {
    await listen(web, { host: options.host, port: options.port })
    port = (web.address() as AddressInfo).port
    hosts = hostsOf(options.host, port)
  }
  let isOwnSocket = (): boolean => false
  if (options.socketPath !== undefined) {
    try {
      isOwnSocket = await listenOnSocket(own, options.socketPath, options.isSocketInHome === true)
    } catch (error) {
      web.close()
      throw error
    }
  }

  async function onWeb(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const requestId = requestIdOf(req)
    try {
      assertNoForeignPage(req, hosts, hasPage)
      await serve(req, res, requestId, callerOf(req))
    } catch (error) {
      send(res, errorReply(error, requestId, log))
    }
  }

  async function onSocket(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const requestId = requestIdOf(req)
    try {
      // A web page cannot open a Unix socket, and the file's mode lets only the owner connect.
      if (req.headers.origin !== undefined) throw new VaultError('ORIGIN_FORBIDDEN')
      await serve(req, res, requestId, { kind: 'owner', via: 'socket' })
    } catch (error) {
      send(res, errorReply(error, requestId, log))
    }
  }

  async function serve(req: IncomingMessage, res: ServerResponse, requestId: string, caller: Caller) {
    const path = req.url!.split('?', 1)[0]!
    const mount = options.mounts?.find((one) => path === one.path || path.startsWith(`${one.path}/`))
    if (mount !== undefined) return mount.handle(req, res, caller)
    if (path === '/v1/vault/events' && req.method === 'GET') {
      countStream(caller, res)
      return streamEvents(api, { caller, requestId }, () => isStillValid(req, caller), req, res)
    }
    const body = await readBodyText(req)
    const signal = abortOf(res)
    const response = await dispatch({
      method: req.method!,
      target: req.url!,
      headers: req.headers as Record<string, string | undefined>,
      body,
      caller,
      requestId,
      signal,
    })
    send(res, response)
  }

  /** @throws `RATE_LIMIT_EXCEEDED` for an agent with too many open streams */
  function countStream(caller: Caller, res: ServerResponse): void {
    if (caller.kind !== 'agent') return
    const { id } = caller.agent
    const open = streams.get(id) ?? 0
    if (open >= MAX_STREAMS_PER_AGENT)
      throw new VaultError(
        'RATE_LIMIT_EXCEEDED',
        `Expected at most ${MAX_STREAMS_PER_AGENT} open streams per agent.`,
        {
          retryAfterSeconds: 10,
        },
      )
    streams.set(id, open + 1)
    res.once('close', () => {
      const left = streams.get(id)! - 1
      if (left === 0) streams.delete(id)
      else streams.set(id, left)
    })
  }

  /** The caller, by its credential alone. @throws `UNAUTHORIZED`, `VAULT_LOCKED`, `RATE_LIMIT_EXCEEDED` */
  function callerOf(req: IncomingMessage): Caller {
    const token = tokenOf(req)
    if (token === undefined) return withoutToken()
    if (isToken(token, 'vow') && api.sessions.isValid(token)) return { kind: 'owner', via: 'direct' }
    const agent = isToken(token, 'vat') ? api.registry.byToken(token) : undefined
    if (agent !== undefined) return { kind: 'agent', agent, via: 'direct' }
    // Before the first unlock, the vault recognizes no token.
    if (isToken(token, 'vat') && !api.registry.isLoaded) {
      if (isOpenPath(req.url!)) return { kind: 'anyone', via: 'direct' }
      throw new VaultError('VAULT_LOCKED')
    }
    failures.count(req.socket.remoteAddress ?? '')
    throw new VaultError('UNAUTHORIZED')
  }

  /** Whether a stream may stay open. Its session may have ended, or its agent may have been revoked meanwhile. */
  function isStillValid(req: IncomingMessage, caller: Caller): boolean {
    const token = tokenOf(req)
    if (caller.via === 'socket' || token === undefined) return true
    return caller.kind === 'owner' ? api.sessions.isValid(token) : api.registry.byToken(token) !== undefined
  }

  function withoutToken(): Caller {
    const { tokenlessAgent } = options
    const agent = tokenlessAgent === undefined ? undefined : api.registry.byName(tokenlessAgent)
    return agent === undefined ? { kind: 'anyone', via: 'direct' } : { kind: 'agent', agent, via: 'direct' }
  }

  return {
    address: { address: options.host, port },
    async close() {
      const ends = [web, own].map((server) => {
        const end = server.listening
          ? new Promise<void>((resolve) => server.close(() => resolve()))
          : undefined
        server.closeAllConnections()
        return end
      })
      if (isOwnSocket()) rmSync(options.socketPath!, { force: true })
      await Promise.all(ends)
    },
  }
}

/**
 * Time limits for sending headers and bodies. They do not apply to a request that waits for the owner, because it was sent
 * completely.
 */
const timeouts = {
  headersTimeout: 10_000,
  requestTimeout: 30_000,
  keepAliveTimeout: 10_000,
  connectionsCheckingInterval: 5_000,
  maxHeaderSize: 16_384,
  noDelay: true,
}

/** The bearer token. Undefined if there is no header, empty if the header is not a bearer token. */
function tokenOf({ headers: { authorization } }: IncomingMessage): string | undefined {
  return authorization === undefined ? undefined : (/^Bearer ([^\s]+)$/i.exec(authorization)?.[1] ?? '')
}

function send(res: ServerResponse, reply: VaultReply): void {
  if (res.destroyed || res.headersSent) return
  // The connection closes, because the rest of the body is not read.
  if (reply.status === 413) res.shouldKeepAlive = false
  res.writeHead(reply.status, { ...reply.headers, 'content-length': Buffer.byteLength(reply.body) })
  res.end(reply.body)
}

function listen(server: Server, where: { host: string; port: number } | { path: string }): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(where, () => {
      server.off('error', reject)
      resolve()
    })
  })
}

/**
 * Listens on a socket. If a crash left a socket without a listener at the path, it is replaced. Outside the vault's folder, a
 * socket with a listener belongs to another vault. The socket is created under a temporary name and renamed. At its end, Node
 * removes the name on which it listened, but the path may then belong to another process.
 *
 * @returns whether the path is still this socket
 */
async function listenOnSocket(server: Server, path: string, isInHome: boolean): Promise<() => boolean> {
  if (isSocket(path)) {
    if (!isInHome && (await respond(path))) throw new Error(`Another vault listens on ${path}.`)
  } else if (existsSync(path)) throw new Error(`Expected a socket or nothing at ${path}.`)
  // The temporary name is not longer than `owner.sock`, because the length of a socket's path is limited.
  const made = join(dirname(path), `.${randomBytes(4).toString('hex')}`)
  // The mode is set by the umask at creation. Between listen and chmod, any user could connect.
  const before = process.umask(0o177)
  try {
    await listen(server, { path: made })
  } finally {
    process.umask(before)
  }
  chmodSync(made, 0o600)
  renameSync(made, path)
  const { ino } = statSync(path)
  return () => statSync(path, { throwIfNoEntry: false })?.ino === ino
}

function isSocket(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isSocket() ?? false
}

const respond = (path: string): Promise<boolean> =>
  new Promise((resolve) => {
    const probe = connect(path)
    probe.once('connect', () => {
      probe.destroy()
      resolve(true)
    })
    probe.once('error', () => resolve(false))
  })
