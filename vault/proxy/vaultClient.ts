import type { Clock } from '../../core/ports/clock.ts'
import type { ChannelKeys } from '../channel/envelope.ts'
import { encodeMessage, type Message } from '../channel/message.ts'
import { isRolloverSigned, isSessionKeySigned } from '../channel/statements.ts'
import { type VaultErrorCode, vaultCodes } from '../errors/codes.ts'
import { VaultError } from '../errors/error.ts'
import type { ServedClient } from '../loopback/serveAgent.ts'
import { SESSION_MS } from '../remote/sessions.ts'
import { type AgentEnd, NoResponse, Notice, type Reach } from './agentEnd.ts'
import type { ProxyState } from './proxyState.ts'

export interface ProxyTimes {
  /** How long a call waits until relay and vault can be reached, in ms. */
  readonly reachMs: number
  /**
   * How long a call waits for its response over all attempts, in ms. The vault waits for an approval for a shorter time
   * (`Prefer: wait=120`).
   */
  readonly callMs: number
  /** How long a greeting waits for its response, in ms. */
  readonly greetMs: number
}

export const defaultProxyTimes: ProxyTimes = { reachMs: 5_000, callMs: 180_000, greetMs: 15_000 }

export interface VaultClient extends Pick<ServedClient, 'call'> {
  /** Drops the session. The next call requests a new one. */
  forgetSession(): void
}

interface Session {
  readonly publicKey: Buffer
  readonly renewAtMs: number
  nextSequence: number
}

/** How long before the vault drops a session's key the proxy requests the next session, in ms. */
const RENEW_AHEAD_MS = 5 * 60_000
const ATTEMPTS = 3

/** Makes the calls of a paired proxy. It keeps a session with the vault and follows key rotations. */
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

  /** The session. The first call that needs one requests it, and concurrent calls wait for the same response. */
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
    const requestedAtMs = clock.now()
    const { head } = await greetOnce().catch((error: unknown) => {
      // This machine's clock was off, or the message was replayed on the way. The corrected clock is used for one more attempt.
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
        "The vault's session key is not signed by the pinned key of the vault.",
      )
    await follow(head['rollover'], signingKey)
    // The time was taken before the request, so the session ends too early rather than too late.
    return { publicKey, renewAtMs: requestedAtMs + SESSION_MS - RENEW_AHEAD_MS, nextSequence: 1 }
  }

  const greetOnce = (): Promise<Message> =>
    end.send({
      kind: 'hello',
      content: encodeMessage({}),
      to: Buffer.from(state.hpkeKey, 'base64'),
      channel,
      waitMs: times.greetMs,
    })

  /** Uses the vault's next static key, if it is newer and the pinned key has signed it. */
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
          if (error instanceof NoResponse && !error.wasSent) throw unreached(end.reach)
          if (error instanceof Notice && error.kind === 'revoked') throw revoked()
          if (!(error instanceof Notice || error instanceof NoResponse)) throw error
          // The vault got the call too late and did not start it, because a machine slept or its clock was set.
          if (error instanceof Notice && error.kind === 'expired' && left > 1 && !signal?.aborted) continue
          session = undefined
          // The vault may have performed the call before it restarted, so only a read is repeated.
          if (method !== 'GET') throw new VaultError('OUTCOME_UNKNOWN')
          if (error instanceof NoResponse || left === 1) throw new VaultError('VAULT_TIMEOUT')
        }
      }
    },
    forgetSession() {
      session = undefined
    },
  }
}

/** The keys that both ends have once the vault has responded to the token. */
export const ownChannelOf = ({ vaultId, serviceId, route, vault }: ProxyState): ChannelKeys => ({
  vaultId,
  serviceId,
  route: Buffer.from(route, 'base64'),
  headerKey: Buffer.from(vault!.headerKey, 'base64'),
})

/** @throws VaultError with the code of an error response */
export function assertOk(head: Message['head']): void {
  const status = Number(head['status'])
  if (status >= 200 && status < 300) return
  const error = (head['error'] ?? {}) as { code?: unknown; message?: unknown }
  const code = String(error.code)
  const known = Object.hasOwn(vaultCodes, code) ? (code as VaultErrorCode) : 'INTERNAL_ERROR'
  throw new VaultError(known, typeof error.message === 'string' ? error.message : undefined)
}

/** The error when the connection does not reach the vault. */
export function unreached(reach: Reach): VaultError {
  const code = reach === 'nowhere' ? 'RELAY_UNREACHABLE' : 'VAULT_UNREACHABLE'
  return new VaultError(code, undefined, { retryAfterSeconds: 5 })
}

function greetingError(error: unknown, reach: Reach): unknown {
  if (error instanceof NoResponse)
    return reach === 'vault' ? new VaultError('VAULT_TIMEOUT') : unreached(reach)
  if (!(error instanceof Notice)) return error
  if (error.kind === 'revoked') return revoked()
  return new VaultError('VAULT_UNREACHABLE', `The vault does not accept this proxy (${error.kind}).`)
}

const revoked = (): VaultError =>
  new VaultError('UNAUTHORIZED', 'The owner revoked this pairing. Ask the owner for a new pair token.')

const bytesOf = (value: unknown): Buffer => Buffer.from(typeof value === 'string' ? value : '', 'base64')
