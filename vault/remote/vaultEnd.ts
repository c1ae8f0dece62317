import type { Clock } from '../../core/ports/clock.ts'
import type { Log } from '../../core/ports/log.ts'
import { isVaultError, VaultError } from '../errors/error.ts'
import { errorBody } from '../errors/errorBody.ts'
import { isLong, type ReplyPath, requestName } from './answerCache.ts'
import {
  type ChannelKeys,
  keyIdOf,
  openRequest,
  readRequestHeader,
  sealAnswer,
  sealNotice,
} from './channel/envelope.ts'
import type { AnswerKind, RequestHeader } from './channel/header.ts'
import { fromStored } from './channel/keyPair.ts'
import { decodeMessage, encodeMessage, type Message } from './channel/message.ts'
import { signRollover, signSessionKey } from './channel/statements.ts'
import { type IdentityKey, signingPairOf, type VaultIdentity } from './identity.ts'
import { type LivePairing, ownChannel, tokenChannel } from './livePairing.ts'
import type { PairingDesk } from './pairingDesk.ts'
import { isSuspended } from './pairingRecord.ts'
import { preSharedOf } from './pairToken.ts'
import type { RemoteAnswer, RemoteRequest } from './remoteRequest.ts'
import { runCall } from './runCall.ts'

export interface VaultEndOptions {
  readonly identity: () => VaultIdentity
  readonly desk: PairingDesk
  readonly handle: (request: RemoteRequest) => Promise<RemoteAnswer>
  readonly clock: Clock
  readonly log: Log
}

/** How far ahead of the vault's clock the end of a request may lie, in milliseconds. */
const LONGEST_EXPIRY_MS = 120_000
/** Requests of one pairing that are being opened or performed; what comes above that is not even opened. */
const MAX_UNDER_WAY = 128
/** Greetings of one pairing that are remembered until their time is over. */
const MAX_TAKEN = 1024
const nobody = Buffer.alloc(32)

/** What became of a request: an answer to be kept, a notice that is not, or nothing for what nobody can prove. */
type Outcome = { readonly answer: Buffer } | { readonly notice: Buffer } | undefined

/** A request whose header was read: it comes from someone who knows the pairing's header key. */
interface Incoming {
  readonly live: LivePairing
  readonly sealed: Buffer
  readonly header: RequestHeader
  readonly channel: ChannelKeys
}

/** Takes one sealed request of a routing id, and sends along `path` what there is to say about it. */
export type VaultEnd = (route: Buffer, sealed: Buffer, path: ReplyPath) => Promise<void>

/**
 * The vault's end of all channels: opens what comes, refuses what is forged, late or a copy, and seals the answers. It
 * knows no socket. A message that does not prove its pairing gets no answer at all.
 */
export function createVaultEnd({ identity, desk, handle, clock, log }: VaultEndOptions): VaultEnd {
  const noticeOf = (kind: Exclude<AnswerKind, 'answer'>, { header, channel }: Incoming) => ({
    notice: sealNotice(kind, header.requestId, channel, clock.now()),
  })

  /** Says that the vault has a request, and that its answer follows. */
  function confirm(live: LivePairing, sealed: Buffer, name: string): void {
    const incoming = readIncoming(live, sealed, identity().vaultId)
    if (incoming !== undefined) live.answers.notify(name, noticeOf('under-way', incoming).notice)
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

  /** Says `expired` only of a call that was not begun, and from now on never is: the proxy may ask for it anew. */
  function refuseLateCall(incoming: Incoming): Outcome {
    const { live, header, channel } = incoming
    const session = live.sessions.find(header.keyId, clock.now())
    if (session === undefined) return noticeOf('unknown-key', incoming)
    if (!session.window.take(header.sequence)) return noticeOf('replayed', incoming)
    // Kept like an answer: it may have gone into a connection that broke while this machine slept.
    return { answer: sealNotice('expired', header.requestId, channel, clock.now()) }
  }

  /** Pairing messages and greetings are sealed to a static key of the vault. */
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
    return { answer: sealAnswer(encodeMessage(head), opened!.keys, channel, clock.now()) }
  }

  async function answerGreeting(
    { live, header }: Incoming,
    { head }: Message,
    key: IdentityKey,
  ): Promise<object> {
    if (header.kind !== 'hello' && isSuspended(live.record)) throw new VaultError('AGENT_SUSPENDED')
    if (header.kind === 'begin')
      return desk.begin(live, head, header.sender, Buffer.from(key.publicKey, 'base64'))
    if (header.kind === 'finish') return desk.finish(live, head)
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
    // Nothing is said about a damaged call: a copy that arrived whole may be running.
    if (message === undefined) return undefined
    if (!session.window.take(header.sequence)) return noticeOf('replayed', incoming)
    const content = await runCall(live, message, handle, log)
    // Revoked meanwhile: what it did stays done, but nothing of it leaves any more.
    if (isOver(live)) return noticeOf('revoked', incoming)
    return { answer: sealAnswer(content, opened!.keys, channel, clock.now()) }
  }

  function refusalOf(error: unknown): object {
    if (!isVaultError(error)) log.error({ err: error }, 'a pairing message failed')
    return { status: isVaultError(error) ? error.status : 500, ...errorBody(error) }
  }

  return async (route, sealed, path) => {
    const live = desk.byRoute(route)
    if (live === undefined) return
    // A pairing that is over is past its answers: they are asked for no more.
    const name = isOver(live) ? '' : requestName(sealed)
    const before = live.answers.repeat(name, path)
    if (before === 'under-way') confirm(live, sealed, name)
    if (before !== undefined || live.underWay >= MAX_UNDER_WAY) return
    if (name !== '') live.answers.take(name, path, clock.now())
    live.underWay++
    const outcome = await perform(live, sealed).catch((error: unknown) => {
      log.error({ err: error, pairing: live.record.id }, 'a remote request failed')
      return undefined
    })
    live.underWay--
    if (name === '') return outcome && 'notice' in outcome ? path.send(outcome.notice) : undefined
    if (outcome === undefined) return live.answers.drop(name)
    if ('notice' in outcome) return live.answers.drop(name, outcome.notice)
    // Silence while a long answer is on a slow line would look like a lost one.
    if (isLong(outcome.answer)) confirm(live, sealed, name)
    live.answers.settle(name, outcome.answer, clock.now())
  }
}

/** Reads the header under the pairing's own key, or, for the first message, under the token's. */
function readIncoming(live: LivePairing, sealed: Buffer, vaultId: string): Incoming | undefined {
  const own = ownChannel(live, vaultId)
  const ownHeader = own && readRequestHeader(sealed, own)
  if (own && ownHeader && ownHeader.kind !== 'begin') return { live, sealed, header: ownHeader, channel: own }
  const token = tokenChannel(live, vaultId)
  const header = readRequestHeader(sealed, token)
  return header?.kind === 'begin' ? { live, sealed, header, channel: token } : undefined
}

/** Greetings have no session yet, so a copy is known by its id until its time is over. */
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
  record.claim ? Buffer.from(record.claim.proxyKey, 'base64') : nobody

/** A new session's key, signed; and the newest static key, signed, for a proxy that still uses an older one. */
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
