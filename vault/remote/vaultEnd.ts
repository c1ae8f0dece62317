import type { Clock } from '../../core/ports/clock.ts'
import type { Log } from '../../core/ports/log.ts'
import {
  type ChannelKeys,
  keyIdOf,
  openRequest,
  readRequestHeader,
  sealNotice,
  sealResponse,
} from '../channel/envelope.ts'
import type { RequestHeader, ResponseKind } from '../channel/header.ts'
import { decodeMessage, encodeMessage, type Message } from '../channel/message.ts'
import { signRollover, signSessionKey } from '../channel/statements.ts'
import { fromStored } from '../channel/suite.ts'
import { errorBody, isVaultError, VaultError } from '../errors/error.ts'
import { type IdentityKey, signingPairOf, type VaultIdentity } from './identity.ts'
import type { PairingQueue } from './pairingQueue.ts'
import { isSuspended, type LivePairing, ownChannel, tokenChannel } from './pairingRecord.ts'
import { preSharedOf } from './pairToken.ts'
import {
  pickHeaders,
  type RemoteRequest,
  type RemoteResponse,
  type RemoteRoute,
  readRemoteCall,
  responseHeaders,
} from './remoteRequest.ts'
import { isLong, type ReplyPath, requestName } from './responseCache.ts'

export interface VaultEndOptions {
  readonly identity: () => VaultIdentity
  readonly pairings: PairingQueue
  readonly routes: readonly RemoteRoute[]
  readonly handle: (request: RemoteRequest) => Promise<RemoteResponse>
  readonly clock: Clock
  readonly log: Log
}

/** How far in the future a request may expire, by the vault's clock, in ms. */
const LONGEST_EXPIRY_MS = 120_000
/** Maximum requests of one pairing that are being opened or performed. Further requests are not even opened. */
const MAX_UNDER_WAY = 128
/** Maximum greetings of one pairing that are remembered until they expire. */
const MAX_TAKEN = 1024
const emptyKey = Buffer.alloc(32)

/**
 * The outcome of a request. It is a response that is stored, a notice that is not stored, or nothing if the request is not
 * authentic.
 */
type Outcome = { readonly response: Buffer } | { readonly notice: Buffer } | undefined

/** A request whose header was decrypted, so its sender has the pairing's header key. */
interface Incoming {
  readonly live: LivePairing
  readonly sealed: Buffer
  readonly header: RequestHeader
  readonly channel: ChannelKeys
}

/** Handles one sealed request of a routing id, and sends the result along `path`. */
export type VaultEnd = (route: Buffer, sealed: Buffer, path: ReplyPath) => Promise<void>

/**
 * The vault's end of all channels. It opens requests, refuses forged, late and repeated ones, and seals the responses. It uses
 * no socket. A message that does not authenticate its pairing gets no response.
 */
export function createVaultEnd({
  identity,
  pairings,
  routes,
  handle,
  clock,
  log,
}: VaultEndOptions): VaultEnd {
  const noticeOf = (kind: Exclude<ResponseKind, 'response'>, { header, channel }: Incoming) => ({
    notice: sealNotice(kind, header.requestId, channel, clock.now()),
  })

  /** Reports that the vault has a request, and that its response follows. */
  function confirm(live: LivePairing, sealed: Buffer, name: string): void {
    const incoming = readIncoming(live, sealed, identity().vaultId)
    if (incoming !== undefined) live.responses.notify(name, noticeOf('under-way', incoming).notice)
  }

  async function perform(live: LivePairing, sealed: Buffer): Promise<Outcome> {
    const incoming = readIncoming(live, sealed, identity().vaultId)
    if (incoming === undefined) return undefined
    const { kind, expiresAtMs } = incoming.header
    const nowMs = clock.now()
    if (isOver(live)) return noticeOf('revoked', incoming)
    const isLate = expiresAtMs <= nowMs || expiresAtMs > nowMs + LONGEST_EXPIRY_MS
    if (kind === 'call') return isLate ? refuseLateCall(incoming) : performCall(incoming)
    return isLate ? noticeOf('expired', incoming) : performGreeting(incoming)
  }

  /** Sends `expired` for a call that was not started and never will be, so that the proxy may send it again. */
  function refuseLateCall(incoming: Incoming): Outcome {
    const { live, header, channel } = incoming
    const session = live.sessions.find(header.keyId, clock.now())
    if (session === undefined) return noticeOf('unknown-key', incoming)
    if (!session.window.take(header.sequence)) return noticeOf('replayed', incoming)
    // The notice is stored like a response, because its connection may have broken while this machine slept.
    return { response: sealNotice('expired', header.requestId, channel, clock.now()) }
  }

  /** Handles pairing messages and greetings, which are sealed with a static key of the vault. */
  async function performGreeting(incoming: Incoming): Promise<Outcome> {
    const { live, sealed, header, channel } = incoming
    const isBegin = header.kind === 'begin'
    const key = identity().keys.find((one) => isNamed(one, header.keyId))
    if (key === undefined) return noticeOf('unopened', incoming)
    const psk = isBegin ? preSharedOf(live.record.token, live.route) : undefined
    const sender = isBegin ? header.sender : proxyKeyOf(live)
    const opened = await openRequest(sealed, header, sender, fromStored(key), channel, psk)
    const message = opened && decodeMessage(opened.content)
    if (message === undefined) return noticeOf('unopened', incoming)
    if (!takeOnce(live, header, clock.now())) return noticeOf('replayed', incoming)
    const head = await answerGreeting(incoming, message, key).catch(refusalOf)
    return { response: sealResponse(encodeMessage(head), opened!.keys, channel, clock.now()) }
  }

  async function answerGreeting(
    { live, header }: Incoming,
    { head }: Message,
    key: IdentityKey,
  ): Promise<object> {
    if (header.kind !== 'hello' && isSuspended(live.record)) throw new VaultError('AGENT_SUSPENDED')
    if (header.kind === 'begin')
      return pairings.begin(live, head, header.sender, Buffer.from(key.publicKey, 'base64'))
    if (header.kind === 'finish') return pairings.finish(live, head)
    if (live.record.state !== 'paired')
      throw new VaultError('UNAUTHORIZED', 'The owner has not confirmed this pairing.')
    return welcome(live, key, identity(), clock.now())
  }

  async function performCall(incoming: Incoming): Promise<Outcome> {
    const { live, sealed, header, channel } = incoming
    const session = live.sessions.find(header.keyId, clock.now())
    if (session === undefined) return noticeOf('unknown-key', incoming)
    const opened = await openRequest(sealed, header, proxyKeyOf(live), session.keys, channel)
    const message = opened && decodeMessage(opened.content)
    // A damaged call gets no notice, because an intact copy may be running.
    if (message === undefined) return undefined
    if (!session.window.take(header.sequence)) return noticeOf('replayed', incoming)
    const content = await runCall(live, message, routes, handle, log)
    // The pairing was revoked meanwhile. The call's effect stays, but its response is not sent.
    if (isOver(live)) return noticeOf('revoked', incoming)
    return { response: sealResponse(content, opened!.keys, channel, clock.now()) }
  }

  function refusalOf(error: unknown): object {
    if (!isVaultError(error)) log.error({ err: error }, 'a pairing message failed')
    return { status: isVaultError(error) ? error.status : 500, ...errorBody(error) }
  }

  return async (route, sealed, path) => {
    const live = pairings.byRoute(route)
    if (live === undefined) return
    // If the pairing has ended, its responses are not requested any more.
    const name = isOver(live) ? '' : requestName(sealed)
    const before = live.responses.repeat(name, path)
    if (before === 'under-way') confirm(live, sealed, name)
    if (before !== undefined || live.underWay >= MAX_UNDER_WAY) return
    if (name !== '') live.responses.take(name, path, clock.now())
    live.underWay++
    const outcome = await perform(live, sealed).catch((error: unknown) => {
      log.error({ err: error, pairing: live.record.id }, 'a remote request failed')
      return undefined
    })
    live.underWay--
    if (name === '') return outcome && 'notice' in outcome ? path.send(outcome.notice) : undefined
    if (outcome === undefined) return live.responses.drop(name)
    if ('notice' in outcome) return live.responses.drop(name, outcome.notice)
    // The proxy gets `under-way` first, because during the transfer of a long response it could take the silence for a loss.
    if (isLong(outcome.response)) confirm(live, sealed, name)
    live.responses.settle(name, outcome.response, clock.now())
  }
}

/** Decrypts the header with the pairing's own key or, for the first message, with the token's key. */
function readIncoming(live: LivePairing, sealed: Buffer, vaultId: string): Incoming | undefined {
  const own = ownChannel(live, vaultId)
  const ownHeader = own && readRequestHeader(sealed, own)
  if (own && ownHeader && ownHeader.kind !== 'begin') return { live, sealed, header: ownHeader, channel: own }
  const token = tokenChannel(live, vaultId)
  const header = readRequestHeader(sealed, token)
  return header?.kind === 'begin' ? { live, sealed, header, channel: token } : undefined
}

/** Whether a greeting is new. It has no session yet, so a copy is recognized by its id until it expires. */
function takeOnce(live: LivePairing, { requestId, expiresAtMs }: RequestHeader, nowMs: number): boolean {
  for (const [id, endMs] of live.taken) if (endMs <= nowMs) live.taken.delete(id)
  const id = requestId.toString('base64')
  if (live.taken.has(id) || live.taken.size >= MAX_TAKEN) return false
  live.taken.set(id, expiresAtMs)
  return true
}

const isOver = ({ record }: LivePairing): boolean => record.state === 'revoked'

const isNamed = ({ publicKey }: IdentityKey, keyId: Buffer): boolean =>
  keyIdOf(Buffer.from(publicKey, 'base64')).equals(keyId)

const proxyKeyOf = ({ record }: LivePairing): Buffer =>
  record.claim ? Buffer.from(record.claim.proxyKey, 'base64') : emptyKey

/** The signed key of a new session. For a proxy that uses an older static key, also the newest one, signed. */
function welcome(live: LivePairing, used: IdentityKey, identity: VaultIdentity, nowMs: number): object {
  const { vaultId, keys } = identity
  const signing = signingPairOf(identity)
  const { keys: session, expiresAtMs } = live.sessions.issue(nowMs)
  const { serviceId } = live.record
  const { publicKey } = session
  const signature = signSessionKey({ vaultId, serviceId, route: live.route, publicKey, expiresAtMs }, signing)
  const greeting = {
    status: 200,
    publicKey: publicKey.toString('base64'),
    expiresAtMs,
    signature: signature.toString('base64'),
  }
  const newest = keys[0]!
  if (used.generation === newest.generation) return greeting
  const { generation } = newest
  const next = { vaultId, publicKey: Buffer.from(newest.publicKey, 'base64'), generation }
  const rollover = {
    publicKey: newest.publicKey,
    generation,
    signature: signRollover(next, signing).toString('base64'),
  }
  return { ...greeting, rollover }
}

/** Maximum calls of one pairing that the host performs concurrently. */
const MAX_RUNNING = 32

/** Lets the host perform one opened call. @returns the message of the response, or of the error */
async function runCall(
  live: LivePairing,
  message: Message,
  routes: readonly RemoteRoute[],
  handle: (request: RemoteRequest) => Promise<RemoteResponse>,
  log: Log,
): Promise<Buffer> {
  if (live.running >= MAX_RUNNING)
    return failed(new VaultError('RATE_LIMIT_EXCEEDED', undefined, { retryAfterSeconds: 1 }))
  if (isSuspended(live.record)) return failed(new VaultError('AGENT_SUSPENDED'))
  live.running++
  try {
    const { agentId, id: pairingId, serviceId } = live.record
    const { signal } = live.waits
    const request = { agentId, pairingId, serviceId, signal, ...readRemoteCall(message, routes) }
    const { status, headers = {}, body = '' } = await handle(request)
    if (!Number.isInteger(status) || status < 200 || status > 599)
      throw new RangeError(`expected a status from 200 to 599, got ${status}`)
    const bytes = typeof body === 'string' ? Buffer.from(body, 'utf8') : body
    return encodeMessage({ status, headers: pickHeaders(headers, responseHeaders) }, bytes)
  } catch (error) {
    if (!isVaultError(error)) log.error({ err: error, pairing: live.record.id }, 'a remote call failed')
    return failed(error)
  } finally {
    live.running--
  }
}

function failed(error: unknown): Buffer {
  const seconds = isVaultError(error) ? error.retryAfterSeconds : undefined
  const headers = {
    'content-type': 'application/json',
    ...(seconds === undefined ? {} : { 'retry-after': String(seconds) }),
  }
  const status = isVaultError(error) ? error.status : 500
  return encodeMessage({ status, headers }, Buffer.from(JSON.stringify(errorBody(error))))
}
