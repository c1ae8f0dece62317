import { randomBytes } from 'node:crypto'
import type { VaultResponse } from '../../core/plugin/vault.ts'
import { VaultError } from '../errors/error.ts'
import type { Reservation } from '../ports/budget.ts'
import { endsIn, type VaultClock } from '../ports/clock.ts'
import type { Records } from '../ports/records.ts'
import {
  type ApprovalRecord,
  type ApprovalState,
  assertSecondWord,
  joined,
  type Question,
} from './approval.ts'
import { storedParts } from './shownPart.ts'

/** The time in which the owner has to decide and the agent to collect the result, in ms from the request. */
export const APPROVAL_TTL_MS = 300_000
/** Maximum open approvals of one agent. The owner could not handle a longer queue. */
const MAX_OPEN_PER_AGENT = 20
/**
 * Maximum size of the texts of open approvals, in bytes. One limit is for one agent, the other for all agents. The texts are in
 * memory and are sent to every open page.
 */
const MAX_OPEN_BYTES_PER_AGENT = 524_288
const MAX_OPEN_BYTES = 4_194_304
const MAX_CACHED = 2_000

/**
 * Limits on an agent's requests that the owner did not approve: denied, expired, canceled or still open. Without these limits,
 * an agent could repeat its request until the owner gives in. Approved requests do not count.
 */
const bounds = [
  { most: 30, windowMs: 3_600_000, name: 'hour' },
  { most: 120, windowMs: 86_400_000, name: 'day' },
] as const

export interface NewApproval {
  readonly key: string
  readonly approval: Question
  readonly frozen: unknown
  /**
   * Computes the hash to which the owner's decision is bound. It covers everything that the owner sees, the frozen bytes, this
   * vault and this approval's id.
   */
  readonly decisionHash: (id: string) => string
  /** Called once with the new id, before anything is written. May reserve money. An error ends the request. */
  readonly reserve: (id: string) => Reservation | null
}

/** Callbacks for the log and the budget. They run on each change before the watchers. */
export interface ApprovalEvents {
  /** Called after each change is on disk and before any watcher. Its error goes to the caller that made the change. */
  changed(record: ApprovalRecord): Promise<void>
  /** Called when an agent has reached its limit. It is called again only after the agent may send requests again. */
  wornOut?(approval: Question, words: string): Promise<void>
}

export interface ApprovalBookDeps {
  readonly records: Records
  readonly clock: VaultClock
  readonly events: ApprovalEvents
}

type Change = Partial<ApprovalRecord> & { readonly state: ApprovalState }

/**
 * All approvals and their decisions, in the vault's encrypted records. A crash therefore neither loses an approval nor decides
 * it twice. A change is made in memory in one synchronous step, and is valid once it is on disk. A second change of the same
 * approval fails.
 */
export class ApprovalBook {
  readonly #records: Records
  readonly #clock: VaultClock
  readonly #events: ApprovalEvents
  readonly #byId = new Map<string, ApprovalRecord>()
  readonly #byKey = new Map<string, string>()
  /**
   * When an approval was created, by the monotonic clock, and whether its deadline has passed. The deadline is checked with
   * both clocks, because the wall clock can be changed.
   */
  readonly #times = new Map<string, { readonly openedAtMs: number; readonly isOver: () => boolean }>()
  readonly #asking = new Map<string, Promise<ApprovalRecord>>()
  /** Approvals whose change is being written. Their state is decided, but no operation may act on it yet. */
  readonly #changing = new Set<string>()
  /** New approvals that are being written. They count toward the limits, and are added to the book once they are on disk. */
  readonly #onTheirWay = new Set<NewApproval>()
  /**
   * Agents about whose frequent requests the owner was notified, and until when they are not reported again, by the monotonic
   * clock.
   */
  readonly #told = new Map<string, number>()
  /** The waiting requests of each approval, by its id. */
  readonly #waiting = new Map<string, Set<() => void>>()
  readonly #watchers = new Set<(record: ApprovalRecord) => void>()
  #sweep: NodeJS.Timeout | undefined

  constructor({ records, clock, events }: ApprovalBookDeps) {
    this.#records = records
    this.#clock = clock
    this.#events = events
  }

  /** Reads the records. Called after each unlock. */
  async load(): Promise<void> {
    const read = this.#records
      .list('approval')
      .map(({ id }) => this.#records.getJson<ApprovalRecord>('approval', id))
      .filter((record) => record !== undefined)
      .sort((a, b) => a.createdAtMs - b.createdAtMs)
    this.#byId.clear()
    this.#byKey.clear()
    this.#times.clear()
    for (const record of read) this.#keep(record)
    await this.#sweepNow()
  }

  get(id: string): ApprovalRecord | undefined {
    return this.#byId.get(id)
  }

  /** All approvals, newest first. */
  list(): readonly ApprovalRecord[] {
    return [...this.#byId.values()].reverse()
  }

  /** The approval that a repeated request gets, by the rules of {@link joined}. */
  byKey(key: string, isKeyed: boolean): ApprovalRecord | undefined {
    const record = this.#byId.get(this.#byKey.get(key) ?? '')
    return record && joined(record, this.#isOver(record), isKeyed)
  }

  /** Whether an approval with this key is being written. {@link byKey} does not find such an approval yet. */
  isPending(key: string): boolean {
    return this.#asking.has(key)
  }

  /**
   * Creates an approval, or returns the open approval with this key.
   * @throws `RATE_LIMIT_EXCEEDED` if the agent has too many open approvals, or too many that were not approved
   */
  ask(init: NewApproval): Promise<ApprovalRecord> {
    const before = this.#asking.get(init.key)
    if (before !== undefined) return before
    const asked = this.#create(init).finally(() => this.#asking.delete(init.key))
    this.#asking.set(init.key, asked)
    return asked
  }

  /** Fulfilled when the approval is no longer pending, after `waitMs`, or when the vault locks. */
  async settled(id: string, waitMs: number, signal?: AbortSignal): Promise<ApprovalRecord> {
    if (waitMs > 0 && this.#byId.get(id)?.state === 'pending') await this.#wait(id, waitMs, signal)
    await this.#expireIfOver(id)
    const record = this.#byId.get(id)
    if (record === undefined) throw new VaultError('VAULT_LOCKED')
    return record
  }

  /**
   * @throws `NOT_FOUND`, `APPROVAL_EXPIRED`, `APPROVAL_RESOLVED` (also for a hash that is not this approval's), or
   *   `VALIDATION_ERROR` where the second word is required and missing
   */
  async approve(id: string, decisionHash: string, by: string, secondWord?: unknown): Promise<ApprovalRecord> {
    const record = this.#byId.get(id)
    if (record !== undefined && record.decisionHash !== decisionHash)
      throw new VaultError(
        'APPROVAL_RESOLVED',
        'Expected the current decision_hash of this approval. Read the approval again, then decide.',
      )
    if (record !== undefined) assertSecondWord(record, secondWord)
    const expiresAtMs = this.#clock.now() + APPROVAL_TTL_MS
    return this.#decide(id, ['pending'], { state: 'approved', decidedBy: by, expiresAtMs })
  }

  deny(id: string, by: string): Promise<ApprovalRecord> {
    return this.#decide(id, ['pending'], { state: 'denied', decidedBy: by })
  }

  cancel(id: string, by: string): Promise<ApprovalRecord> {
    return this.#decide(id, ['pending', 'approved'], { state: 'canceled', decidedBy: by })
  }

  /**
   * Changes an approved approval to consumed. Fulfilled when the change is on disk. A repeated request then gets `response`.
   */
  async consume(id: string, response: VaultResponse | null): Promise<void> {
    await this.#move(id, ['approved'], { state: 'consumed', response })
  }

  /** Changes an approved approval to failed. */
  async fail(id: string): Promise<void> {
    await this.#move(id, ['approved'], { state: 'failed' })
  }

  watch(listener: (record: ApprovalRecord) => void): () => void {
    this.#watchers.add(listener)
    return () => void this.#watchers.delete(listener)
  }

  /** Clears the memory and ends every wait, because the vault was locked. */
  unload(): void {
    clearTimeout(this.#sweep)
    this.#byId.clear()
    this.#byKey.clear()
    for (const id of this.#waiting.keys()) this.#wake(id)
  }

  #publish(record: ApprovalRecord): void {
    for (const listener of this.#watchers) listener(record)
  }

  #keep(record: ApprovalRecord): void {
    this.#byId.set(record.id, record)
    this.#byKey.set(record.key, record.id)
    this.#keepTime(record)
  }

  #keepTime({ id, createdAtMs, expiresAtMs }: ApprovalRecord): void {
    const now = this.#clock.now()
    this.#times.set(id, {
      openedAtMs:
        this.#times.get(id)?.openedAtMs ?? this.#clock.monotonicMs() - Math.max(0, now - createdAtMs),
      // The time is limited, because an approval must not live longer after the clock was set back.
      isOver: endsIn(this.#clock, Math.min(expiresAtMs - now, APPROVAL_TTL_MS)),
    })
  }

  #isOver({ id }: ApprovalRecord): boolean {
    return this.#times.get(id)?.isOver() !== false
  }

  /**
   * Moves an approval to its next state. Only the first caller can do that. From its check until its write is done, every other
   * caller finds the approval closed.
   */
  async #move(id: string, from: readonly ApprovalState[], change: Change): Promise<ApprovalRecord> {
    const record = this.#existing(id)
    if (this.#changing.has(id) || !from.includes(record.state)) throw resolved(record)
    this.#changing.add(id)
    try {
      const next: ApprovalRecord = { ...record, ...change, parts: storedParts(record.kind, record.parts) }
      await this.#records.putJson('approval', id, next)
      this.#byId.set(id, next)
      if (change.expiresAtMs !== undefined) this.#keepTime(next)
      await this.#events.changed(next)
      this.#wake(id)
      this.#publish(next)
      return next
    } finally {
      this.#changing.delete(id)
      this.#schedule()
    }
  }

  async #decide(id: string, from: readonly ApprovalState[], change: Change): Promise<ApprovalRecord> {
    this.#existing(id)
    await this.#expireIfOver(id)
    if (this.#byId.get(id)?.state === 'expired') throw new VaultError('APPROVAL_EXPIRED')
    return this.#move(id, from, { ...change, decidedAtMs: this.#clock.now() })
  }

  #existing(id: string): ApprovalRecord {
    const record = this.#byId.get(id)
    if (record === undefined) throw new VaultError('NOT_FOUND', 'No approval has this id.')
    return record
  }

  async #expireIfOver(id: string): Promise<void> {
    const record = this.#byId.get(id)
    if (record === undefined || !isLive(record) || !this.#isOver(record) || this.#changing.has(id)) return
    await this.#move(id, ['pending', 'approved'], { state: 'expired' }).catch((error: unknown) => {
      // Another change came first, or the vault is locked. In the second case, the approval is checked again at the next
      // unlock.
      if (!(error instanceof VaultError)) throw error
    })
  }

  #schedule(): void {
    clearTimeout(this.#sweep)
    let next = Number.POSITIVE_INFINITY
    for (const record of this.#byId.values()) if (isLive(record)) next = Math.min(next, record.expiresAtMs)
    if (next === Number.POSITIVE_INFINITY) return
    const waitMs = Math.max(1_000, Math.min(next - this.#clock.now(), 60_000))
    this.#sweep = setTimeout(() => void this.#sweepNow(), waitMs)
    this.#sweep.unref()
  }

  async #sweepNow(): Promise<void> {
    for (const { id } of [...this.#byId.values()].filter(isLive))
      await this.#expireIfOver(id).catch(() => undefined)
    this.#schedule()
  }

  async #create(init: NewApproval): Promise<ApprovalRecord> {
    this.#assertRoom(init.approval)
    const wornOut = this.#wornOut(init.approval.agentId)
    if (wornOut !== undefined) {
      if (wornOut.isNew) await this.#events.wornOut?.(init.approval, wornOut.words)
      throw wornOut.error
    }
    this.#onTheirWay.add(init)
    try {
      return await this.#write(init)
    } finally {
      this.#onTheirWay.delete(init)
    }
  }

  #assertRoom(asked: Question): void {
    const open = [...this.#byId.values()].filter(({ state }) => state === 'pending')
    const all: Question[] = [...open, ...[...this.#onTheirWay].map(({ approval }) => approval)]
    const own = all.filter(({ agentId }) => agentId === asked.agentId)
    const sum = (approvals: readonly Question[]) =>
      approvals.reduce((bytes, one) => bytes + sizeOf(one), sizeOf(asked))
    const problem =
      own.length >= MAX_OPEN_PER_AGENT
        ? `Expected at most ${MAX_OPEN_PER_AGENT} open approvals per agent`
        : sum(own) > MAX_OPEN_BYTES_PER_AGENT
          ? `Expected the open approvals of one agent to hold at most ${MAX_OPEN_BYTES_PER_AGENT} bytes`
          : sum(all) > MAX_OPEN_BYTES
            ? `Expected all open approvals together to hold at most ${MAX_OPEN_BYTES} bytes`
            : undefined
    if (problem === undefined) return
    throw new VaultError(
      'RATE_LIMIT_EXCEEDED',
      `${problem}. Wait until the owner has decided some of them.`,
      {
        retryAfterSeconds: 30,
      },
    )
  }

  /** Why an agent may not send requests now. Too many of its requests were not approved. Undefined if it may. */
  #wornOut(agentId: string): { words: string; error: VaultError; isNew: boolean } | undefined {
    const nowMs = this.#clock.monotonicMs()
    const ages = [...this.#byId.values()]
      .filter((r) => r.agentId === agentId && r.state !== 'approved' && r.state !== 'consumed')
      .map(({ id, createdAtMs }) =>
        Math.max(this.#clock.now() - createdAtMs, nowMs - this.#times.get(id)!.openedAtMs),
      )
      .sort((a, b) => a - b)
    const coming = [...this.#onTheirWay].filter((one) => one.approval.agentId === agentId).length
    for (const { most, windowMs, name } of bounds) {
      // Age of the approval that has to leave the time window before another one fits. Approvals that are being written have
      // age 0.
      const oldestMs = coming >= most ? 0 : ages[most - 1 - coming]
      if (oldestMs === undefined || oldestMs >= windowMs) continue
      const waitMs = windowMs - oldestMs
      const words = `Expected at most ${most} unapproved requests per ${name} from one agent.`
      const isNew = (this.#told.get(agentId) ?? Number.NEGATIVE_INFINITY) <= nowMs
      if (isNew) this.#told.set(agentId, nowMs + waitMs)
      const error = new VaultError(
        'RATE_LIMIT_EXCEEDED',
        `${words} Send fewer requests, or ask the owner to add rules.`,
        {
          retryAfterSeconds: Math.max(1, Math.ceil(waitMs / 1_000)),
        },
      )
      return { words, error, isNew }
    }
    return undefined
  }

  async #write(init: NewApproval): Promise<ApprovalRecord> {
    const { key, approval, frozen, decisionHash, reserve } = init
    const id = `apr_${randomBytes(12).toString('base64url')}`
    const held = reserve(id)
    const now = this.#clock.now()
    const record: ApprovalRecord = {
      ...approval,
      id,
      state: 'pending',
      key,
      decisionHash: decisionHash(id),
      frozen,
      reservationId: held?.id ?? null,
      createdAtMs: now,
      expiresAtMs: now + APPROVAL_TTL_MS,
      decidedAtMs: null,
      decidedBy: null,
      response: null,
    }
    await Promise.all([held?.durable, this.#records.putJson('approval', id, record, { ifVersion: 0 })])
    this.#keep(record)
    this.#onTheirWay.delete(init)
    await this.#events.changed(record)
    this.#publish(record)
    this.#schedule()
    void this.#prune()
    return record
  }

  async #prune(): Promise<void> {
    for (const record of this.#byId.values()) {
      if (this.#byId.size <= MAX_CACHED) return
      if (isLive(record)) continue
      this.#byId.delete(record.id)
      this.#times.delete(record.id)
      if (this.#byKey.get(record.key) === record.id) this.#byKey.delete(record.key)
      await this.#records.delete('approval', record.id).catch(() => undefined)
    }
  }

  /** Fulfilled when the approval changes, after `waitMs`, or when the signal aborts. */
  async #wait(id: string, waitMs: number, signal?: AbortSignal): Promise<void> {
    if (signal?.aborted === true) return
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, waitMs)
    const end = () => resolve()
    signal?.addEventListener('abort', end, { once: true })
    const own = this.#waiting.get(id) ?? new Set()
    this.#waiting.set(id, own.add(resolve))
    await promise
    clearTimeout(timer)
    signal?.removeEventListener('abort', end)
    own.delete(resolve)
    if (own.size === 0) this.#waiting.delete(id)
  }

  #wake(id: string): void {
    for (const go of this.#waiting.get(id) ?? []) go()
  }
}

const isLive = ({ state }: ApprovalRecord): boolean => state === 'pending' || state === 'approved'

/** Size of an approval's texts by agents and sellers, in characters. Its other fields are short. */
const sizeOf = ({ parts, plainWords, warnings }: Question): number =>
  [...parts.map(({ text }) => text), ...plainWords, ...warnings].reduce((sum, { length }) => sum + length, 0)

const resolved = (record: ApprovalRecord): VaultError =>
  record.state === 'expired'
    ? new VaultError('APPROVAL_EXPIRED')
    : new VaultError(
        'APPROVAL_RESOLVED',
        `Expected an open approval, but this approval is ${record.state}.`,
        {
          details: { status: record.state },
        },
      )
