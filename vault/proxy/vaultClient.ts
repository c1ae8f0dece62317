import type { Clock } from '../../core/ports/clock.ts'
import { type VaultErrorCode, vaultCodes } from '../errors/codes.ts'
import { VaultError } from '../errors/error.ts'
import type { ChannelKeys } from '../remote/channel/envelope.ts'
import { encodeMessage, type Message } from '../remote/channel/message.ts'
import { isRolloverSigned, isSessionKeySigned } from '../remote/channel/statements.ts'
import { SESSION_MS } from '../remote/sessions.ts'
import { type AgentEnd, NoAnswer, Notice, type Reach } from './agentEnd.ts'
import type { ProxyState } from './proxyState.ts'

export interface ProxyTimes {
  /** How long a call waits for relay and vault to be there before it fails, in milliseconds. */
  readonly reachMs: number
  /** How long a call waits for its answer, all attempts together: longer than the vault ever waits for an approval (`Prefer: wait=120`). */
  readonly callMs: number
  /** How long a greeting waits. */
  readonly greetMs: number
}

export const defaultProxyTimes: ProxyTimes = { reachMs: 5_000, callMs: 180_000, greetMs: 15_000 }

export interface VaultCall {
  readonly method: 'GET' | 'POST'
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
  /** Aborted when nobody waits for the answer any more. */
  readonly signal?: AbortSignal
}

export interface VaultClient {
  /** One call to the vault. @throws VaultError when the vault's own answer could not be had. */
  call(request: VaultCall): Promise<Message>
  /** Forgets the session; the next call asks for a new one. */
  forgetSession(): void
}

interface Session {
  readonly publicKey: Buffer
  readonly renewAtMs: number
  nextSequence: number
}

/** A new session is asked for this long before the vault drops the key, in milliseconds. */
const RENEW_AHEAD_MS = 5 * 60_000
const ATTEMPTS = 3

/** The paired proxy's calls: keeps a session with the vault and follows its key when it is rotated. */
export function createVaultClient(
  end: AgentEnd,
  initial: ProxyState,
  save: (state: ProxyState) => Promise<void>,
  clock: Clock,
  times: ProxyTimes,
): VaultClient {
  let state = initial
  let session: Promise<Session> | undefined
  const channel = ownChannelOf(state)

  /** The session, asked for by whoever needs it first; the others wait for the same answer. */
  async function currentSession(): Promise<Session> {
    session ??= greet()
    const asked = session
    try {
      const found = await asked
      if (clock.now() < found.renewAtMs) return found
    } catch (error) {
      if (session === asked) session = undefined
      throw error
    }
    if (session === asked) session = undefined
    return currentSession()
  }

  async function greet(): Promise<Session> {
    const askedAtMs = clock.now()
    const { head } = await greetOnce().catch((error: unknown) => {
      // A clock that is off, or a message that was copied on the way: once more, with what was learned.
      if (error instanceof Notice && (error.kind === 'expired' || error.kind === 'replayed'))
        return greetOnce()
      throw error
    })
    assertOk(head)
    const publicKey = bytesOf(head['publicKey'])
    const expiresAtMs = Number(head['expiresAtMs'])
    const signingKey = Buffer.from(state.vault!.signingKey, 'base64')
    const { vaultId, serviceId } = state
    const statement = { vaultId, serviceId, route: channel.route, publicKey, expiresAtMs }
    if (!isSessionKeySigned(statement, bytesOf(head['signature']), signingKey))
      throw new VaultError(
        'VAULT_UNREACHABLE',
        "The vault's session key is not signed by the vault's own key.",
      )
    await follow(head['rollover'], signingKey)
    // By our own clock and from before the question, so that it ends early rather than late.
    return { publicKey, renewAtMs: askedAtMs + SESSION_MS - RENEW_AHEAD_MS, nextSequence: 1 }
  }

  const greetOnce = (): Promise<Message> =>
    end.send({
      kind: 'hello',
      content: encodeMessage({}),
      to: Buffer.from(state.hpkeKey, 'base64'),
      channel,
      waitMs: times.greetMs,
    })

  /** Takes the vault's next static key, if it is newer and signed by the key that was pinned. */
  async function follow(rollover: unknown, signingKey: Buffer): Promise<void> {
    if (typeof rollover !== 'object' || rollover === null) return
    const { publicKey, generation, signature } = rollover as Record<string, unknown>
    const next = { vaultId: state.vaultId, publicKey: bytesOf(publicKey), generation: Number(generation) }
    if (!Number.isSafeInteger(next.generation) || next.generation <= state.generation) return
    if (!isRolloverSigned(next, bytesOf(signature), signingKey)) return
    state = { ...state, hpkeKey: next.publicKey.toString('base64'), generation: next.generation }
    await save(state)
  }

  async function attempt(content: Buffer, endsAtMs: number): Promise<Message> {
    const reached = await end.untilReached(times.reachMs)
    if (!reached) throw unreached(end.reach)
    const using = await currentSession().catch((error: unknown) => {
      throw greetingError(error, end.reach)
    })
    const sequence = using.nextSequence++
    const waitMs = endsAtMs - performance.now()
    return end.send({ kind: 'call', content, to: using.publicKey, channel, sequence, waitMs })
  }

  return {
    async call({ method, path, headers, body, signal }) {
      const content = encodeMessage({ method, path, headers }, body)
      const endsAtMs = performance.now() + times.callMs
      for (let left = ATTEMPTS; ; left--) {
        try {
          return await attempt(content, endsAtMs)
        } catch (error) {
          if (error instanceof NoAnswer && !error.wasSent) throw unreached(end.reach)
          if (error instanceof Notice && error.kind === 'revoked') throw revoked()
          if (!(error instanceof Notice || error instanceof NoAnswer)) throw error
          // Too late or by another clock, so it was not begun: a machine slept, or its clock was set.
          if (error instanceof Notice && error.kind === 'expired' && left > 1 && !signal?.aborted) continue
          session = undefined
          // The vault may have performed it in an earlier life. What only reads can be asked for again.
          if (method !== 'GET') throw new VaultError('OUTCOME_UNKNOWN')
          if (error instanceof NoAnswer || left === 1) throw new VaultError('VAULT_TIMEOUT')
        }
      }
    },
    forgetSession() {
      session = undefined
    },
  }
}

/** What both ends share once the vault has answered the token. */
export const ownChannelOf = ({ vaultId, serviceId, route, vault }: ProxyState): ChannelKeys => ({
  vaultId,
  serviceId,
  route: Buffer.from(route, 'base64'),
  headerKey: Buffer.from(vault!.headerKey, 'base64'),
})

/** @throws VaultError with the code of an answer that is none. */
export function assertOk(head: Message['head']): void {
  const status = Number(head['status'])
  if (status >= 200 && status < 300) return
  const error = (head['error'] ?? {}) as { code?: unknown; message?: unknown }
  const code = String(error.code)
  const known = Object.hasOwn(vaultCodes, code) ? (code as VaultErrorCode) : 'INTERNAL_ERROR'
  throw new VaultError(known, typeof error.message === 'string' ? error.message : undefined)
}

/** What to say when the way ends before the vault. */
export function unreached(reach: Reach): VaultError {
  const code = reach === 'nowhere' ? 'RELAY_UNREACHABLE' : 'VAULT_UNREACHABLE'
  return new VaultError(code, undefined, { retryAfterSeconds: 5 })
}

function greetingError(error: unknown, reach: Reach): unknown {
  if (error instanceof NoAnswer) return reach === 'vault' ? new VaultError('VAULT_TIMEOUT') : unreached(reach)
  if (!(error instanceof Notice)) return error
  if (error.kind === 'revoked') return revoked()
  return new VaultError('VAULT_UNREACHABLE', `The vault does not accept this proxy (${error.kind}).`)
}

const revoked = (): VaultError =>
  new VaultError('UNAUTHORIZED', 'The owner revoked this pairing; a new pair token is needed.')

const bytesOf = (value: unknown): Buffer => Buffer.from(typeof value === 'string' ? value : '', 'base64')
