import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Log } from '../../core/ports/log.ts'
import { isToken } from '../agents/agents.ts'
import { VaultError } from '../errors/error.ts'
import { type Caller, callerId, createFailureRate } from '../host/caller.ts'
import type { VaultApi } from '../host/createVaultApi.ts'
import { bodyText, endStalled, hostsOf } from '../loopback/callers.ts'
import { serveAgent } from '../loopback/serveAgent.ts'
import { remoteRoutes } from '../operations/table.ts'
import { createDispatch } from './dispatch.ts'

export interface LocalAgentsOptions {
  /** Loopback address to listen on. */
  readonly host: string
  /** 0 for any free port. */
  readonly port: number
  /** The agent as which calls without a token act. Undefined: calls without a token are refused. */
  readonly agent: string | undefined
}

export interface LocalAgents {
  readonly url: string
  close(): Promise<void>
}

/**
 * Serves agents on this machine as `tollgate proxy` does on other machines, but without a relay. On its own port, calls without
 * a token act as one agent that the owner named. An agent can do no more here than over the relay, and no operation of the
 * owner is served. A call with an agent's token acts as that agent.
 *
 * @throws {Error} for a port that is in use
 */
export async function startLocalAgents(
  api: VaultApi,
  log: Log,
  { host, port, agent: name }: LocalAgentsOptions,
): Promise<LocalAgents> {
  const dispatch = createDispatch(api, log)
  const failures = createFailureRate()
  const server = createServer({ requestTimeout: 30_000, headersTimeout: 10_000 })
  server.maxConnections = 256
  endStalled(server)
  server.listen(port, host)
  await once(server, 'listening')
  const bound = (server.address() as AddressInfo).port
  const localUrl = `http://${host.includes(':') ? `[${host}]` : host}:${bound}`

  /** @throws `UNAUTHORIZED`, `VAULT_LOCKED`, `RATE_LIMIT_EXCEEDED` */
  function callerOf({ headers, socket }: IncomingMessage, isOpen: boolean): Caller {
    if (isOpen) return { kind: 'anyone', via: 'direct' }
    if (!api.registry.isLoaded) throw new VaultError('VAULT_LOCKED')
    const { authorization } = headers
    if (authorization === undefined && name === undefined)
      throw new VaultError(
        'UNAUTHORIZED',
        "Expected Authorization: Bearer with an agent's token, which this port requires.",
      )
    const token = /^Bearer ([^\s]+)$/i.exec(authorization ?? '')?.[1] ?? ''
    const agent =
      authorization === undefined
        ? api.registry.byName(name!)
        : isToken(token, 'vat')
          ? api.registry.byToken(token)
          : undefined
    if (agent !== undefined && agent.revokedAt === null) return { kind: 'agent', agent, via: 'direct' }
    if (authorization === undefined)
      throw new VaultError(
        'UNAUTHORIZED',
        `This port was opened for the agent ${name}, which the vault does not have. Add the agent: tollgate vault agents add.`,
      )
    failures.count(socket.remoteAddress ?? '')
    throw new VaultError('UNAUTHORIZED')
  }

  const clientOf = (request: IncomingMessage, isOpen: boolean) => {
    const caller = callerOf(request, isOpen)
    return {
      countedAs: callerId(caller),
      async call({ method, path, headers, body, signal }: Parameters<LocalClient['call']>[0]) {
        const requestId = headers['x-request-id']!
        const response = await dispatch({
          method,
          target: path,
          headers,
          body: bodyText(body),
          caller,
          requestId,
          ...(signal && { signal }),
        })
        return {
          head: { status: response.status, headers: response.headers },
          body: Buffer.from(response.body),
        }
      },
    }
  }
  const rules = { hosts: hostsOf(host, bound), tokenHash: undefined }
  server.on('request', serveAgent({ routes: remoteRoutes, clientOf, rules, localUrl, mode: 'local', log }))

  return {
    url: localUrl,
    async close() {
      const closed = once(server, 'close')
      server.close()
      server.closeAllConnections()
      await closed
    },
  }
}

type LocalClient = ReturnType<Parameters<typeof serveAgent>[0]['clientOf']>
