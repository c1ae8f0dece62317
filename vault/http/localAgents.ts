import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Log } from '../../core/ports/log.ts'
import { isToken } from '../agents/token.ts'
import { VaultError } from '../errors/error.ts'
import { type Caller, callerId } from '../host/caller.ts'
import { createFailureRate } from '../host/rate.ts'
import type { VaultApi } from '../host/vaultApi.ts'
import { hostsOf } from '../proxy/judgeCaller.ts'
import { serveAgent } from '../proxy/serveAgent.ts'
import { createDispatch } from './dispatch.ts'
import { endStalled } from './incoming.ts'
import { bodyText } from './readBody.ts'

export interface LocalAgentsOptions {
  /** Loopback address to listen on. */
  readonly host: string
  /** 0 for any free one. */
  readonly port: number
  /** Name of the agent that calls without a token count as; undefined: they are refused. */
  readonly agent: string | undefined
}

export interface LocalAgents {
  readonly url: string
  close(): Promise<void>
}

/**
 * Serves the agents of this machine as `tollgate proxy` serves those of others, without a relay: on a port of its own, on
 * which calls need no token and count as one agent that the owner named. What an agent can't do from afar it can't do here
 * either: nothing of the owner's is served. A call that shows an agent's token counts as that agent.
 *
 * @throws {Error} for a port that is taken
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
      throw new VaultError('UNAUTHORIZED', "This port needs Authorization: Bearer with an agent's token.")
    const token = /^Bearer ([^\s]+)$/i.exec(authorization ?? '')?.[1] ?? ''
    const agent =
      authorization === undefined
        ? api.registry.byName(name!)
        : isToken(token, 'vat')
          ? api.registry.byToken(token)
          : undefined
    if (agent !== undefined && agent.revokedAt === null) return { kind: 'agent', agent, via: 'direct' }
    if (authorization === undefined)
      throw new VaultError('UNAUTHORIZED', `The vault has no agent ${name}, which this port was opened for.`)
    failures.count(socket.remoteAddress ?? '')
    throw new VaultError('UNAUTHORIZED')
  }

  const clientOf = (request: IncomingMessage, isOpen: boolean) => {
    const caller = callerOf(request, isOpen)
    return {
      countedAs: callerId(caller),
      async call({ method, path, headers, body, signal }: Parameters<LocalClient['call']>[0]) {
        const requestId = headers['x-request-id']!
        const answer = await dispatch({
          method,
          target: path,
          headers,
          body: bodyText(body),
          caller,
          requestId,
          ...(signal && { signal }),
        })
        return {
          head: { status: answer.status, headers: answer.headers },
          body: Buffer.from(answer.body),
        }
      },
    }
  }
  const rules = { hosts: hostsOf(host, bound), tokenHash: undefined }
  server.on('request', serveAgent({ clientOf, rules, localUrl, mode: 'local', log }))

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
