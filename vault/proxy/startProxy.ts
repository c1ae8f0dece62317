import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { isLoopback } from '../../core/http/isLoopback.ts'
import { type Clock, systemClock } from '../../core/ports/clock.ts'
import { type Log, silentLog } from '../../core/ports/log.ts'
import { VaultError } from '../errors/error.ts'
import { endStalled } from '../http/incoming.ts'
import { fromStored } from '../remote/channel/keyPair.ts'
import { parsePairToken } from '../remote/pairToken.ts'
import type { Backoff } from '../remote/relayLink.ts'
import { relayUrl } from '../remote/relayUrl.ts'
import { type AgentEnd, type Reach, startAgentEnd } from './agentEnd.ts'
import { hashOfToken, hostsOf } from './judgeCaller.ts'
import { newPairing, pairWithVault, tokenHashOf } from './pairWithVault.ts'
import { openProxyState, type ProxyState, type ProxyStateFile, writePrivately } from './proxyState.ts'
import { serveAgent } from './serveAgent.ts'
import { createVaultClient, defaultProxyTimes, type ProxyTimes } from './vaultClient.ts'

export interface ProxyOptions {
  /** The one-time pair token; needed the first time only. */
  readonly pair?: string | undefined
  readonly serviceId: string
  readonly vaultId: string
  /** The vault's public key, base64. */
  readonly hpkeKey: string
  /** `wss://…` */
  readonly relay: string
  /** 0 for any free one. */
  readonly port: number
  /** Default 127.0.0.1; another one only together with `requireToken`. */
  readonly host?: string
  /** Where the proxy keeps its key and its pairing; default `~/.tollgate/proxy`. */
  readonly home?: string
  /** Callers on this machine need the proxy's own token, too. */
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
  /** `http://127.0.0.1:8421`: what the agent gets as `DCP_URL`. */
  readonly url: string
  readonly port: number
  /** The callers' token, only when it was made just now; it is not kept in clear. */
  readonly newToken: string | undefined
  /** Where the way to the vault ends at the moment. */
  readonly reach: Reach
  close(): Promise<void>
}

/**
 * Starts the proxy where the agent is: it listens on this machine and passes each call to the owner's vault, end-to-end
 * encrypted, through the relay. Pairs first where it is not paired; fulfilled when it listens.
 *
 * @throws VaultError with `PAIR_USED`, `PAIR_EXPIRED`, `APPROVAL_DENIED`, … when pairing fails; Error for options that can
 *         not work.
 */
export async function startProxy(options: ProxyOptions): Promise<RunningProxy> {
  const { serviceId, vaultId, port, host = '127.0.0.1', requireToken = false } = options
  const { clock = systemClock, log = silentLog, home = join(homedir(), '.tollgate', 'proxy') } = options
  if (!isLoopback(host) && !requireToken)
    throw new Error(`expected --require-token with --host ${host}: other machines could call the vault`)
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
    // A vault that appears may be another life of the same one: its session keys died with it.
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
    server.on('request', serveAgent({ clientOf: () => client, rules, localUrl, mode: 'proxy', log }))
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

/** The pairing in use, or the one that was begun, or a new one from the token. */
async function findState(file: ProxyStateFile, options: ProxyOptions): Promise<ProxyState> {
  const token = tokenOf(options.pair)
  const hash = token && tokenHashOf(token)
  const [paired, pending] = [await file.read(), await file.readPending()]
  const fits = (state: ProxyState | undefined): state is ProxyState =>
    state !== undefined && (hash === undefined || state.tokenHash === hash)
  const found = [paired, pending].find(fits)
  if (found !== undefined && options.hpkeKey !== found.givenKey && options.hpkeKey !== found.hpkeKey)
    throw new Error('expected the --hpke-key that this proxy was paired with; the key given is another one')
  if (found !== undefined && (found.isPaired || found.vault !== undefined || token !== undefined))
    return found
  if (token === undefined)
    throw new Error('expected --pair with a pair token: this proxy is not paired with that vault yet')
  return newPairing(token, options)
}

function tokenOf(text: string | undefined): ReturnType<typeof parsePairToken> {
  if (text === undefined) return undefined
  const token = parsePairToken(text.trim())
  if (token === undefined) throw new Error('expected a pair token, vpt_ and 64 letters; what came is none')
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

/** The hash of the token that callers show; the token itself only when it is made. */
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
