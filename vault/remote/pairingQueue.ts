import { randomBytes } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import type { Clock } from '../../core/ports/clock.ts'
import type { Log } from '../../core/ports/log.ts'
import { commitmentTo, pairingPhrase } from '../channel/statements.ts'
import { createKeyPair, toStored } from '../channel/suite.ts'
import { VaultError } from '../errors/error.ts'
import { signingPairOf, type VaultIdentity } from './identity.ts'
import {
  isSuspended,
  type LivePairing,
  livePairing,
  type PairingRecord,
  type PairingStore,
  type PairingView,
  viewOf,
} from './pairingRecord.ts'
import { createPairToken, formatPairToken, isTokenOf, parsePairToken, tokenRecordOf } from './pairToken.ts'

/** A request to the owner to decide whether the proxy shows the same four words. */
export interface PairingRequest {
  readonly pairing: PairingView
  readonly phrase: string
  /**
   * Aborted when the decision is no longer needed. It was made or came too late (15 minutes), the pairing was revoked, or the
   * connector is closed.
   */
  readonly signal: AbortSignal
}

export interface NewPairing {
  /** 1 to 64 of `A-Z a-z 0-9 . _ -`, starting with a letter or digit. */
  readonly serviceId: string
  /** How long the token may be used, in ms, from a minute to a week. */
  readonly ttlMs: number
  /** The agent as which the proxy acts. Default: a generated id. */
  readonly agentId?: string
}

export interface PairingQueueOptions {
  readonly identity: () => VaultIdentity
  readonly store: PairingStore
  /**
   * Returns true if the owner confirms that both sides show the same words. Called once per claim, and again after a restart.
   */
  readonly confirm: (approval: PairingRequest) => Promise<boolean>
  /** Called after every change of a state. A crash may come between, so compare the pairings at the start, too. */
  readonly onChange?: ((pairing: PairingView) => void | Promise<void>) | undefined
  readonly confirmWaitMs?: number | undefined
  readonly clock: Clock
  readonly log: Log
}

/** The response to a pairing message. `status` is an HTTP status. */
export type ApprovalResponse = { readonly status: number } & Readonly<Record<string, unknown>>

const SHORTEST_TTL_MS = 60_000
const LONGEST_TTL_MS = 7 * 24 * 3_600_000
/** How long the owner may take to compare the words, in ms. */
const CONFIRM_MS = 15 * 60_000
/** How long one message waits for the owner before the proxy has to poll again, in ms. */
const DEFAULT_CONFIRM_WAIT_MS = 20_000
const MAX_PAIRINGS = 200
/** How long an ended pairing is stored, in ms, so that a late proxy gets the reason. */
const KEEP_MS = 30 * 24 * 3_600_000

/** Creates pairings and responds to the proxies that use their tokens. Steps of one pairing run one at a time. */
export class PairingQueue {
  readonly #options: PairingQueueOptions
  readonly #byRoute = new Map<string, LivePairing>()

  constructor(options: PairingQueueOptions) {
    this.#options = options
  }

  /** Loads the pairings and drops those that ended long ago. */
  async open(): Promise<void> {
    for (const record of await this.#options.store.list()) this.#add(record)
    await this.#prune()
  }

  close(): void {
    for (const live of this.#byRoute.values()) {
      live.ended.abort()
      live.waits.abort()
      live.sessions.clear()
    }
  }

  byRoute = (route: Buffer): LivePairing | undefined => this.#byRoute.get(route.toString('hex'))
  all = (): readonly LivePairing[] => [...this.#byRoute.values()]
  byId = (id: string): LivePairing | undefined => this.all().find(({ record }) => record.id === id)

  /** @throws VaultError `VALIDATION_ERROR`, or what the store throws */
  async create(input: NewPairing): Promise<{ readonly live: LivePairing; readonly token: string }> {
    const { serviceId, ttlMs } = checked(input)
    await this.#prune()
    if (this.#byRoute.size >= MAX_PAIRINGS) await this.#makeRoom()
    const createdAtMs = this.#options.clock.now()
    const routing = toStored(createKeyPair('Ed25519'))
    const base = { routing, createdAtMs, expiresAtMs: createdAtMs + ttlMs, state: 'offered' as const }
    const id = `pair_${randomBytes(12).toString('hex')}`
    const agentId = input.agentId ?? `agent_${randomBytes(8).toString('hex')}`
    const draft = { id, agentId, serviceId, ...base }
    const token = createPairToken(livePairing({ ...draft, token: { hash: '', psk: '' } }).route)
    const record: PairingRecord = { ...draft, token: tokenRecordOf(token) }
    await this.#options.store.put(record)
    return { live: this.#add(record), token: formatPairToken(token) }
  }

  /** Handles the first message of a proxy, which has the token, and names the key that the proxy will use. */
  begin(
    live: LivePairing,
    head: Readonly<Record<string, unknown>>,
    proxyKey: Buffer,
    vaultKey: Buffer,
  ): Promise<ApprovalResponse> {
    return serialised(live, async () => {
      const { clock } = this.#options
      const token = parsePairToken(String(head['token']))
      const commitment = String(head['commitment'])
      if (token === undefined || !isTokenOf(token, live.record.token) || commitment.length !== 44)
        throw new VaultError('UNAUTHORIZED', 'This pair token is unknown.')
      const { claim, state, expiresAtMs } = live.record
      const isSame = claim?.proxyKey === proxyKey.toString('base64') && claim.commitment === commitment
      if (state === 'offered' && expiresAtMs <= clock.now()) throw new VaultError('PAIR_EXPIRED')
      if (state !== 'offered' && !isSame) throw new VaultError('PAIR_USED')
      // The same proxy sends its message again, because it was stopped before it got the response.
      if (state === 'offered')
        await this.#write(live, {
          state: 'claimed',
          claim: {
            proxyKey: proxyKey.toString('base64'),
            commitment,
            vaultNonce: randomBytes(32).toString('base64'),
            vaultKey: vaultKey.toString('base64'),
            headerKey: randomBytes(32).toString('base64'),
            claimedAtMs: clock.now(),
          },
        })
      const { vaultNonce, headerKey } = live.record.claim!
      const signingKey = this.#options.identity().signing.publicKey
      return { status: 200, vaultNonce, headerKey, signingKey }
    })
  }

  /** Handles the second message, which opens the proxy's commitment. Both sides then have the phrase, and the owner decides. */
  async finish(live: LivePairing, head: Readonly<Record<string, unknown>>): Promise<ApprovalResponse> {
    const nonce = Buffer.from(String(head['nonce']), 'base64')
    const { claim } = live.record
    if (claim === undefined || commitmentTo(nonce).toString('base64') !== claim.commitment)
      throw new VaultError('VALIDATION_ERROR', 'The nonce does not match its commitment.')
    if (claim.claimedAtMs + CONFIRM_MS <= this.#options.clock.now()) await this.#decide(live, false)
    if (live.record.state === 'claimed') {
      live.confirming ??= this.#askOwner(live, this.#phraseOf(live, nonce)).finally(
        () => (live.confirming = undefined),
      )
      const done = new AbortController()
      const waitMs = this.#options.confirmWaitMs ?? DEFAULT_CONFIRM_WAIT_MS
      const tired = wait(waitMs, undefined, { signal: done.signal, ref: false }).catch(() => {})
      await Promise.race([live.confirming, tired])
      done.abort()
    }
    const { state, agentId } = live.record
    if (state === 'claimed') return { status: 202, state }
    if (state === 'paired') return { status: 200, state, agentId }
    if (state === 'refused')
      throw new VaultError('APPROVAL_DENIED', 'The owner did not confirm this pairing.')
    throw new VaultError('UNAUTHORIZED', 'This pairing was revoked.')
  }

  /** Resumes a pairing that a restore suspended. @throws VaultError `NOT_FOUND` */
  async resume(id: string): Promise<PairingView> {
    const live = this.byId(id)
    if (live === undefined) throw new VaultError('NOT_FOUND', `No pairing has the id ${id}.`)
    return serialised(live, async () => {
      if (isSuspended(live.record)) await this.#write(live, { suspendedAtMs: null })
      return this.view(live)
    })
  }

  /** Ends a pairing permanently. @throws VaultError `NOT_FOUND` */
  async revoke(id: string): Promise<PairingView> {
    const live = this.byId(id)
    if (live === undefined) throw new VaultError('NOT_FOUND', `No pairing has the id ${id}.`)
    return serialised(live, async () => {
      if (live.record.state !== 'revoked')
        await this.#write(live, { state: 'revoked', endedAtMs: this.#options.clock.now() })
      live.ended.abort()
      live.waits.abort()
      live.sessions.clear()
      return this.view(live)
    })
  }

  view = (live: LivePairing): PairingView => viewOf(live.record, this.#options.clock.now())

  #phraseOf({ record, route }: LivePairing, proxyNonce: Buffer): string {
    const identity = this.#options.identity()
    const claim = record.claim!
    return pairingPhrase({
      vaultId: identity.vaultId,
      serviceId: record.serviceId,
      route,
      vaultKey: Buffer.from(claim.vaultKey, 'base64'),
      signingKey: signingPairOf(identity).publicKey,
      proxyKey: Buffer.from(claim.proxyKey, 'base64'),
      proxyNonce,
      vaultNonce: Buffer.from(claim.vaultNonce, 'base64'),
    })
  }

  async #askOwner(live: LivePairing, phrase: string): Promise<void> {
    const { confirm, log } = this.#options
    const { signal } = live.ended
    try {
      const isConfirmed = await confirm({ pairing: this.view(live), phrase, signal })
      await this.#decide(live, isConfirmed === true)
    } catch (error) {
      // The owner has not decided, so the proxy's next message asks the owner again.
      if (!signal.aborted) log.error({ err: error, pairing: live.record.id }, 'the pairing was not decided')
    }
  }

  async #decide(live: LivePairing, isConfirmed: boolean): Promise<void> {
    await serialised(live, async () => {
      const nowMs = this.#options.clock.now()
      // The wait ended because the vault was locked or stopped. The owner has not decided and is asked again.
      if (live.record.state !== 'claimed' || live.ended.signal.aborted) return
      await this.#write(
        live,
        isConfirmed ? { state: 'paired', pairedAtMs: nowMs } : { state: 'refused', endedAtMs: nowMs },
      )
      live.ended.abort()
    })
  }

  async #write(live: LivePairing, change: Partial<PairingRecord>): Promise<void> {
    const next = { ...live.record, ...change }
    await this.#options.store.put(next)
    live.record = next
    try {
      await this.#options.onChange?.(this.view(live))
    } catch (error) {
      this.#options.log.error({ err: error, pairing: next.id }, 'a change of a pairing could not be recorded')
    }
  }

  #add(record: PairingRecord): LivePairing {
    const live = livePairing(record)
    this.#byRoute.set(live.route.toString('hex'), live)
    return live
  }

  async #prune(): Promise<void> {
    const nowMs = this.#options.clock.now()
    for (const live of this.all()) if (endOf(live) + KEEP_MS <= nowMs) await this.#forget(live)
  }

  /** Drops the pairing that ended first. @throws VaultError `VALIDATION_ERROR` when none has ended */
  async #makeRoom(): Promise<void> {
    const oldest = this.all().reduce((first, live) => (endOf(live) < endOf(first) ? live : first))
    if (endOf(oldest) <= this.#options.clock.now()) return this.#forget(oldest)
    throw new VaultError('VALIDATION_ERROR', `Expected at most ${MAX_PAIRINGS} pairings. Revoke some first.`)
  }

  async #forget({ record, route }: LivePairing): Promise<void> {
    this.#byRoute.delete(route.toString('hex'))
    await this.#options.store.delete(record.id)
  }
}

/** When a pairing ended, or when an offer will expire. Infinite while the pairing is in use. */
const endOf = ({ record }: LivePairing): number =>
  (record.state === 'offered' ? record.expiresAtMs : record.endedAtMs) ?? Number.POSITIVE_INFINITY

function checked(input: NewPairing): NewPairing {
  if (!/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(input.serviceId))
    throw new VaultError(
      'VALIDATION_ERROR',
      'Expected a service id of 1 to 64 letters, digits, dots, dashes and underscores.',
    )
  if (!(input.ttlMs >= SHORTEST_TTL_MS && input.ttlMs <= LONGEST_TTL_MS))
    throw new VaultError('VALIDATION_ERROR', 'Expected a lifetime of the pair token from a minute to a week.')
  return input
}

/** Runs the work of one pairing one after the other. A failure does not stop the next. */
function serialised<T>(live: LivePairing, work: () => Promise<T>): Promise<T> {
  const result = live.writing.then(work)
  live.writing = result.catch(() => {})
  return result
}
