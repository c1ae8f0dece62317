import { randomBytes } from 'node:crypto'
import { chmodSync, existsSync, renameSync, rmSync, statSync } from 'node:fs'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { dirname, join } from 'node:path'
import type { Log } from '../../core/ports/log.ts'
import { isToken } from '../agents/token.ts'
import { VaultError } from '../errors/error.ts'
import type { Caller } from '../host/caller.ts'
import { createFailureRate } from '../host/rate.ts'
import type { VaultApi } from '../host/vaultApi.ts'
import { createDispatch, errorReply } from './dispatch.ts'
import { assertLocalRequest } from './guard.ts'
import { abortOf, endStalled, requestIdOf } from './incoming.ts'
import { readBodyText } from './readBody.ts'
import type { VaultReply } from './request.ts'
import { isOpenPath } from './routes.ts'
import { streamEvents } from './streamEvents.ts'

/** Serves what lies below a path of its own, such as `/mcp` or the approvals page, behind the same guard. */
export interface Mount {
  /** `/mcp`: that path and everything below it. */
  readonly path: string
  /** True for a page: the vault's own origin may then call it, and the API from it. */
  readonly isPage: boolean
  handle(req: IncomingMessage, res: ServerResponse, caller: Caller): void | Promise<void>
}

export interface VaultServerOptions {
  readonly host: string
  /** Null for none: only the owner is served, on the socket. */
  readonly port: number | null
  /** Path of the owner's Unix socket; made with mode 0600. Undefined for none. */
  readonly socketPath?: string
  /** True where the socket lies in the vault's folder, which this process holds: a process that answers there has lost it. */
  readonly isSocketInHome?: boolean
  /** Name of the agent that a request without a token counts as: for test suites only. */
  readonly tokenlessAgent?: string
  readonly mounts?: readonly Mount[]
}

export interface VaultServer {
  /** Port 0 where there is none. */
  readonly address: Pick<AddressInfo, 'address' | 'port'>
  close(): Promise<void>
}

/** Open streams of one agent: a client needs one, and each keeps a connection. */
const MOST_STREAMS_PER_AGENT = 8
/** Connections over TCP, of everybody together, so that descriptors are left for the owner's socket and the vault's files. */
const MOST_CONNECTIONS = 512

const loopback = new Set(['127.0.0.1', '::1', 'localhost'])

/**
 * Serves a vault on loopback for agents and on a Unix socket for its owner. Never on another address: what is remote comes
 * through the relay.
 *
 * @throws {Error} for an address that is not loopback, a port or a socket that is taken
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
  const web = createServer(timeouts, (req, res) => void onWeb(req, res))
  const own = createServer(timeouts, (req, res) => void onSocket(req, res))
  web.maxConnections = MOST_CONNECTIONS
  endStalled(web)
  const streams = new Map<string, number>()
  // Nothing here is ever upgraded.
  for (const server of [web, own]) server.on('upgrade', (_req, socket) => socket.destroy())
  if (options.port !== null) {
    await listen(web, { host: options.host, port: options.port })
    port = (web.address() as AddressInfo).port
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
      assertLocalRequest(req, port, hasPage)
      await serve(req, res, requestId, callerOf(req))
    } catch (error) {
      send(res, errorReply(error, requestId, log))
    }
  }

  async function onSocket(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const requestId = requestIdOf(req)
    try {
      // A page can't open a Unix socket; whoever can is the owner, says the file's mode.
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
    const answer = await dispatch({
      method: req.method!,
      target: req.url!,
      headers: req.headers as Record<string, string | undefined>,
      body,
      caller,
      requestId,
      signal,
    })
    send(res, answer)
  }

  /** @throws `RATE_LIMIT_EXCEEDED` for an agent that has enough of them open */
  function countStream(caller: Caller, res: ServerResponse): void {
    if (caller.kind !== 'agent') return
    const { id } = caller.agent
    const open = streams.get(id) ?? 0
    if (open >= MOST_STREAMS_PER_AGENT)
      throw new VaultError(
        'RATE_LIMIT_EXCEEDED',
        `Expected at most ${MOST_STREAMS_PER_AGENT} open streams of one agent.`,
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

  /** Who is asking, by the credential alone. @throws `UNAUTHORIZED`, `VAULT_LOCKED`, `RATE_LIMIT_EXCEEDED` */
  function callerOf(req: IncomingMessage): Caller {
    const token = tokenOf(req)
    if (token === undefined) return withoutToken()
    if (isToken(token, 'vow') && api.sessions.isValid(token)) return { kind: 'owner', via: 'direct' }
    const agent = isToken(token, 'vat') ? api.registry.byToken(token) : undefined
    if (agent !== undefined) return { kind: 'agent', agent, via: 'direct' }
    // Before the first unlock nobody can be told apart.
    if (isToken(token, 'vat') && !api.registry.isLoaded) {
      if (isOpenPath(req.url!)) return { kind: 'anyone', via: 'direct' }
      throw new VaultError('VAULT_LOCKED')
    }
    failures.count(req.socket.remoteAddress ?? '')
    throw new VaultError('UNAUTHORIZED')
  }

  /** Whether a stream may go on: sessions end and agents are revoked while it is open. */
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

/** Slow heads and bodies end; a request that waits for its owner has sent everything and may stay. */
const timeouts = {
  headersTimeout: 10_000,
  requestTimeout: 30_000,
  keepAliveTimeout: 10_000,
  connectionsCheckingInterval: 5_000,
  maxHeaderSize: 16_384,
  noDelay: true,
}

/** Undefined where none was sent, empty where it is no bearer token. */
function tokenOf({ headers: { authorization } }: IncomingMessage): string | undefined {
  return authorization === undefined ? undefined : (/^Bearer ([^\s]+)$/i.exec(authorization)?.[1] ?? '')
}

function send(res: ServerResponse, reply: VaultReply): void {
  if (res.destroyed || res.headersSent) return
  // What was not read is not read any more.
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
 * A socket that nobody answers on was left behind by a crash; elsewhere than in the vault's folder, one that is answered is another
 * vault's. It is made under a name of its own and renamed: Node removes the name that it listened on, and by the time this process
 * ends the path may be the socket of another one, which has the folder now.
 *
 * @returns whether the path is still this socket
 */
async function listenOnSocket(server: Server, path: string, isInHome: boolean): Promise<() => boolean> {
  if (isSocket(path)) {
    if (!isInHome && (await answers(path))) throw new Error(`Another vault listens on ${path}.`)
  } else if (existsSync(path)) throw new Error(`Expected a socket or nothing at ${path}.`)
  // No longer than `owner.sock`: the length of a socket's path is bounded.
  const made = join(dirname(path), `.${randomBytes(4).toString('hex')}`)
  // The mode from the first moment on: between listening and chmod anybody could connect.
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

const answers = (path: string): Promise<boolean> =>
  new Promise((resolve) => {
    const probe = connect(path)
    probe.once('connect', () => {
      probe.destroy()
      resolve(true)
    })
    probe.once('error', () => resolve(false))
  })
