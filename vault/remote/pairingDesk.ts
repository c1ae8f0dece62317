import { randomBytes } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import type { Clock } from '../../core/ports/clock.ts'
import type { Log } from '../../core/ports/log.ts'
import { VaultError } from '../errors/error.ts'
import { createKeyPair, toStored } from './channel/keyPair.ts'
import { commitmentTo, pairingPhrase } from './channel/phrase.ts'
import { signingPairOf, type VaultIdentity } from './identity.ts'
import { type LivePairing, livePairing } from './livePairing.ts'
import {
  isSuspended,
  type PairingRecord,
  type PairingStore,
  type PairingView,
  viewOf,
} from './pairingRecord.ts'
import { createPairToken, formatPairToken, isTokenOf, parsePairToken, tokenRecordOf } from './pairToken.ts'

/** What the owner is asked: whether the proxy shows the same four words. */
export interface PairingQuestion {
  readonly pairing: PairingView
  readonly phrase: string
  /** Aborted when the question is over: decided, revoked, too late (15 minutes), or the connector is closed. */
  readonly signal: AbortSignal
}

export interface NewPairing {
  /** 1 to 64 of `A-Z a-z 0-9 . _ -`, beginning with a letter or digit. */
  readonly serviceId: string
  /** How long the token may be used, in milliseconds: a minute to a week. */
  readonly ttlMs: number
  /** Whom the vault knows the agent as; made up when left out. */
  readonly agentId?: string
}

export interface PairingDeskOptions {
  readonly identity: () => VaultIdentity
  readonly store: PairingStore
  /** True when the owner says that both sides show the same words. Asked once a claim, again after a restart. */
  readonly confirm: (question: PairingQuestion) => Promise<boolean>
  /** After every change of a state. A crash may come between: read the pairings at the start, too. */
  readonly onChange?: ((pairing: PairingView) => void | Promise<void>) | undefined
  readonly confirmWaitMs?: number | undefined
  readonly clock: Clock
  readonly log: Log
}

/** The answer to a pairing message; `status` as in HTTP. */
export type DeskAnswer = { readonly status: number } & Readonly<Record<string, unknown>>

const SHORTEST_TTL_MS = 60_000
const LONGEST_TTL_MS = 7 * 24 * 3_600_000
/** How long the owner may take to compare the words. */
const CONFIRM_MS = 15 * 60_000
/** How long one message waits for the owner; then the proxy asks again. */
const DEFAULT_CONFIRM_WAIT_MS = 20_000
const MAX_PAIRINGS = 200
/** How long what is over stays, so that a late proxy hears why. */
const KEEP_MS = 30 * 24 * 3_600_000

/** Makes pairings, and answers the proxies that use their tokens. All of it is serialised a pairing. */
export class PairingDesk {
  readonly #options: PairingDeskOptions
  readonly #byRoute = new Map<string, LivePairing>()

  constructor(options: PairingDeskOptions) {
    this.#options = options
  }

  /** Reads the store; forgets what was over long ago. */
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

  /** @throws VaultError `VALIDATION_ERROR`, or what the store throws. */
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

  /** The first message of a proxy: it has the token, and says which key it will use. */
  begin(
    live: LivePairing,
    head: Readonly<Record<string, unknown>>,
    proxyKey: Buffer,
    vaultKey: Buffer,
  ): Promise<DeskAnswer> {
    return serialised(live, async () => {
      const { clock } = this.#options
      const token = parsePairToken(String(head['token']))
      const commitment = String(head['commitment'])
      if (token === undefined || !isTokenOf(token, live.record.token) || commitment.length !== 44)
        throw new VaultError('UNAUTHORIZED', 'This pair token is not known.')
      const { claim, state, expiresAtMs } = live.record
      const isSame = claim?.proxyKey === proxyKey.toString('base64') && claim.commitment === commitment
      if (state === 'offered' && expiresAtMs <= clock.now()) throw new VaultError('PAIR_EXPIRED')
      if (state !== 'offered' && !isSame) throw new VaultError('PAIR_USED')
      // The same proxy once more: it was stopped before it heard the answer.
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

  /** The second message: the proxy opens its commitment, both sides have the phrase, and the owner decides. */
  async finish(live: LivePairing, head: Readonly<Record<string, unknown>>): Promise<DeskAnswer> {
    const nonce = Buffer.from(String(head['nonce']), 'base64')
    const { claim } = live.record
    if (claim === undefined || commitmentTo(nonce).toString('base64') !== claim.commitment)
      throw new VaultError('VALIDATION_ERROR', 'The nonce is not the one that was committed to.')
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

  /** Lets a pairing go on that a restore suspended. @throws VaultError `NOT_FOUND`. */
  async resume(id: string): Promise<PairingView> {
    const live = this.byId(id)
    if (live === undefined) throw new VaultError('NOT_FOUND', `There is no pairing ${id}.`)
    return serialised(live, async () => {
      if (isSuspended(live.record)) await this.#write(live, { suspendedAtMs: null })
      return this.view(live)
    })
  }

  /** Ends a pairing for good. @throws VaultError `NOT_FOUND`. */
  async revoke(id: string): Promise<PairingView> {
    const live = this.byId(id)
    if (live === undefined) throw new VaultError('NOT_FOUND', `There is no pairing ${id}.`)
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
      // Not decided: the next message of the proxy asks again.
      if (!signal.aborted) log.error({ err: error, pairing: live.record.id }, 'the pairing was not decided')
    }
  }

  async #decide(live: LivePairing, isConfirmed: boolean): Promise<void> {
    await serialised(live, async () => {
      const nowMs = this.#options.clock.now()
      // What ends because the vault is locked or stopped was decided by nobody: it is asked again.
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
      this.#options.log.error({ err: error, pairing: next.id }, 'a change of a pairing was not taken note of')
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

  /** Forgets what was over first. @throws VaultError `VALIDATION_ERROR` when nothing is over. */
  async #makeRoom(): Promise<void> {
    const oldest = this.all().reduce((first, live) => (endOf(live) < endOf(first) ? live : first))
    if (endOf(oldest) <= this.#options.clock.now()) return this.#forget(oldest)
    throw new VaultError('VALIDATION_ERROR', `There are ${MAX_PAIRINGS} pairings; revoke some first.`)
  }

  async #forget({ record, route }: LivePairing): Promise<void> {
    this.#byRoute.delete(route.toString('hex'))
    await this.#options.store.delete(record.id)
  }
}

/** When a pairing was, or an offer will be, over; infinite while it is of use. */
const endOf = ({ record }: LivePairing): number =>
  (record.state === 'offered' ? record.expiresAtMs : record.endedAtMs) ?? Number.POSITIVE_INFINITY

function checked(input: NewPairing): NewPairing {
  if (!/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(input.serviceId))
    throw new VaultError(
      'VALIDATION_ERROR',
      'A service id is 1 to 64 letters, digits, dots, dashes, underscores.',
    )
  if (!(input.ttlMs >= SHORTEST_TTL_MS && input.ttlMs <= LONGEST_TTL_MS))
    throw new VaultError('VALIDATION_ERROR', 'A pair token lives for a minute to a week.')
  return input
}

/** One after the other; a failure does not stop the next. */
function serialised<T>(live: LivePairing, work: () => Promise<T>): Promise<T> {
  const result = live.writing.then(work)
  live.writing = result.catch(() => {})
  return result
}
