import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { isLoopback } from '../../core/http/caller.ts'
import { type Clock, systemClock } from '../../core/ports/clock.ts'
import { type Log, silentLog } from '../../core/ports/log.ts'
import { fromStored } from '../channel/suite.ts'
import { VaultError } from '../errors/error.ts'
import { endStalled, hashOfToken, hostsOf } from '../loopback/callers.ts'
import { serveAgent } from '../loopback/serveAgent.ts'
import { parsePairToken } from '../remote/pairToken.ts'
import { type Backoff, relayUrl } from '../remote/relayLink.ts'
import type { RemoteRoute } from '../remote/remoteRequest.ts'
import { type AgentEnd, type Reach, startAgentEnd } from './agentEnd.ts'
import { newPairing, pairWithVault, tokenHashOf } from './pairWithVault.ts'
import { openProxyState, type ProxyState, type ProxyStateFile, writePrivately } from './proxyState.ts'
import { createVaultClient, defaultProxyTimes, type ProxyTimes } from './vaultClient.ts'

export interface ProxyOptions {
  /** The one-time pair token. It is required only the first time. */
  readonly pair?: string | undefined
  readonly serviceId: string
  readonly vaultId: string
  /** The vault's public key, base64. */
  readonly hpkeKey: string
  /** `wss://…` */
  readonly relay: string
  /** The routes that agents may call, which are the remote routes of the vault's operations table. */
  readonly routes: readonly RemoteRoute[]
  /** 0 for any free port. */
  readonly port: number
  /** Default 127.0.0.1. Any other address requires `requireToken`. */
  readonly host?: string
  /** Folder of the proxy's key and pairing. Default `~/.tollgate/proxy`. */
  readonly home?: string
  /** True if callers on this machine need the proxy's own token. */
  readonly requireToken?: boolean
  /** Shows the four words that the owner compares. */
  readonly onPhrase?: (phrase: string) => void
  readonly ca?: string
  readonly backoff?: Backoff
  readonly times?: Partial<ProxyTimes>
  readonly clock?: Clock
  readonly log?: Log
}

export interface RunningProxy {
  /** `http://127.0.0.1:8421`, which is the agent's `DCP_URL`. */
  readonly url: string
  readonly port: number
  /** The callers' token, only if it was just created, because only its hash is stored. */
  readonly newToken: string | undefined
  /** The farthest point that the connection reaches now. */
  readonly reach: Reach
  close(): Promise<void>
}

/**
 * Starts the proxy on the agent's machine. It listens there and forwards each call through the relay to the owner's vault,
 * encrypted end to end. If it is not paired, it pairs first. Fulfilled when it listens.
 *
 * @throws VaultError with `PAIR_USED`, `PAIR_EXPIRED`, `APPROVAL_DENIED`, … when pairing fails, Error for invalid options
 */
export async function startProxy(options: ProxyOptions): Promise<RunningProxy> {
  const { serviceId, vaultId, routes, port, host = '127.0.0.1', requireToken = false } = options
  const { clock = systemClock, log = silentLog, home = join(homedir(), '.tollgate', 'proxy') } = options
  if (!isLoopback(host) && !requireToken)
    throw new Error(
      `expected --require-token with --host ${host}, because other machines could call the vault`,
    )
  if (Buffer.from(options.hpkeKey, 'base64').byteLength !== 32)
    throw new Error("expected the vault's public key, 32 bytes in base64, as --hpke-key")
  const url = relayUrl(options.relay)
  const file = openProxyState(home, vaultId, serviceId)
  const known = await findState(file, options)
  const { ca, backoff } = options
  const link = { url, log, ...(ca === undefined ? {} : { ca }), ...(backoff ? { backoff } : {}) }
  let onPresent = (): void => {}
  const route = Buffer.from(known.route, 'base64')
  const end = startAgentEnd(link, route, fromStored(known.staticKey), clock, () => onPresent())
  try {
    const state = known.isPaired ? known : await pair(end, known, file, options)
    const times = { ...defaultProxyTimes, ...options.times }
    const client = createVaultClient(end, state, file.write, clock, times)
    // A vault that appears may have restarted, which ends its session keys.
    onPresent = client.forgetSession
    const { tokenHash, newToken } = requireToken ? await ownToken(home) : none
    const server = createServer({ requestTimeout: 30_000, headersTimeout: 10_000 })
    endStalled(server)
    server.maxConnections = 256
    server.listen(port, host)
    await once(server, 'listening')
    const bound = (server.address() as AddressInfo).port
    const localUrl = `http://${host.includes(':') ? `[${host}]` : host}:${bound}`
    const rules = { hosts: hostsOf(host, bound), tokenHash }
    server.on('request', serveAgent({ routes, clientOf: () => client, rules, localUrl, mode: 'proxy', log }))
    return {
      url: localUrl,
      port: bound,
      newToken,
      get reach() {
        return end.reach
      },
      async close() {
        const closed = once(server, 'close')
        server.close()
        await end.close()
        server.closeIdleConnections()
        await closed
      },
    }
  } catch (error) {
    await end.close()
    throw error
  }
}

const none = { tokenHash: undefined, newToken: undefined }

/** The pairing in use. Without one, the pending pairing, or a new one from the token. */
async function findState(file: ProxyStateFile, options: ProxyOptions): Promise<ProxyState> {
  const token = tokenOf(options.pair)
  const hash = token && tokenHashOf(token)
  const [paired, pending] = [await file.read(), await file.readPending()]
  const fits = (state: ProxyState | undefined): state is ProxyState =>
    state !== undefined && (hash === undefined || state.tokenHash === hash)
  const found = [paired, pending].find(fits)
  if (found !== undefined && options.hpkeKey !== found.givenKey && options.hpkeKey !== found.hpkeKey)
    throw new Error('expected the --hpke-key that this proxy was paired with, got another key')
  if (found !== undefined && (found.isPaired || found.vault !== undefined || token !== undefined))
    return found
  if (token === undefined)
    throw new Error('expected --pair with a pair token, because this proxy is not paired with that vault yet')
  return newPairing(token, options)
}

function tokenOf(text: string | undefined): ReturnType<typeof parsePairToken> {
  if (text === undefined) return undefined
  const token = parsePairToken(text.trim())
  if (token === undefined) throw new Error('expected a pair token: vpt_ and 64 characters')
  return token
}

async function pair(
  end: AgentEnd,
  pending: ProxyState,
  file: ProxyStateFile,
  { pair: text, onPhrase = () => {} }: ProxyOptions,
): Promise<ProxyState> {
  const token = tokenOf(text)
  if (pending.vault === undefined && token === undefined) throw new VaultError('UNAUTHORIZED')
  return pairWithVault(end, pending, token, file, onPhrase)
}

/** The hash of the callers' token. The token itself is returned only when it is created. */
async function ownToken(home: string): Promise<{ tokenHash: Buffer; newToken: string | undefined }> {
  const file = join(home, 'caller-token.sha256')
  const kept = await readFile(file, 'utf8').catch(() => '')
  if (/^[0-9a-f]{64}\n$/.test(kept))
    return { tokenHash: Buffer.from(kept.trim(), 'hex'), newToken: undefined }
  const newToken = `vat_${randomBytes(32).toString('base64url')}`
  const tokenHash = hashOfToken(newToken)
  await writePrivately(home, file, `${tokenHash.toString('hex')}\n`)
  return { tokenHash, newToken }
}
