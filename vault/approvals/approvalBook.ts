import { randomBytes } from 'node:crypto'
import type { VaultAnswer } from '../../core/plugin/vault.ts'
import { VaultError } from '../errors/error.ts'
import { endsIn, type VaultClock } from '../ports/clock.ts'
import type { Records } from '../ports/records.ts'
import type { ApprovalRecord, ApprovalState, Question } from './approval.ts'
import { joined } from './joined.ts'
import { assertSecondWord } from './secondWord.ts'
import { keptParts } from './shownPart.ts'
import { createWaiting } from './waiting.ts'

/** How long the owner has for an answer, and the agent then for coming back for it. */
export const APPROVAL_TTL_MS = 300_000
/** Open questions of one agent; more would only bury the owner. */
const MOST_OPEN_PER_AGENT = 20
/** What open questions show, in bytes: of one agent, and of all. They are in memory, and go to every page that is open. */
const MOST_OPEN_BYTES_PER_AGENT = 524_288
const MOST_OPEN_BYTES = 4_194_304
const MOST_KEPT = 2_000
/**
 * Questions of one agent that the owner did not agree to: refused, expired, taken back, or still open. An owner who is asked again
 * and again agrees in the end; who agrees wants to be asked.
 */
const bounds = [
  { most: 30, windowMs: 3_600_000, name: 'hour' },
  { most: 120, windowMs: 86_400_000, name: 'day' },
] as const

export interface NewApproval {
  readonly key: string
  readonly question: Question
  readonly frozen: unknown
  /** What an answer is bound to: everything that is shown, the frozen bytes, this vault and this one question. */
  readonly decisionHash: (id: string) => string
  /** Called once with the new id, before anything is written: may hold money back. What it throws ends the request. */
  readonly reserve: (id: string) => { reservationId: string; durable: Promise<void> } | null
}

/** Who hears of changes: the log and the budget first, then whoever watches. */
export interface ApprovalEvents {
  /** After each change is on disk, before anybody else hears of it. A failure here fails the change's caller. */
  changed(record: ApprovalRecord): Promise<void>
  /** An agent was kept from asking more; told once until it may ask again. */
  wornOut?(question: Question, words: string): Promise<void>
}

/**
 * Every question to the owner and its answer, in the vault's encrypted records, so that a crash neither loses one nor
 * answers it twice. A change is decided in memory, in one step that nothing can come between, and counts when it is on
 * disk; whoever comes second finds the question closed.
 */
export interface ApprovalBook {
  /** Reads the records; called after each unlock. */
  load(): Promise<void>
  get(id: string): ApprovalRecord | undefined
  /** Newest first. */
  list(): readonly ApprovalRecord[]
  /** The approval that the same request again finds, by the rules of {@link joined}. */
  byKey(key: string, isKeyed: boolean): ApprovalRecord | undefined
  /** Whether a question of this key is on its way to disk; only then does {@link byKey} find it. */
  isBeingAsked(key: string): boolean
  /**
   * Asks, or joins the question that is open for this key.
   * @throws `RATE_LIMIT_EXCEEDED` when the agent has too many open, or asked too much that was not approved
   */
  ask(init: NewApproval): Promise<ApprovalRecord>
  /** Fulfilled when it is not pending any more, after `waitMs`, or when the vault closes its book (lock). */
  settled(id: string, waitMs: number, signal?: AbortSignal): Promise<ApprovalRecord>
  /**
   * @throws `NOT_FOUND`, `APPROVAL_EXPIRED`, `APPROVAL_RESOLVED` (also for another hash than the one of the question),
   *         `VALIDATION_ERROR` without the second word where the question wants it
   */
  approve(id: string, decisionHash: string, by: string, secondWord?: unknown): Promise<ApprovalRecord>
  deny(id: string, by: string): Promise<ApprovalRecord>
  cancel(id: string, by: string): Promise<ApprovalRecord>
  /** Approved → consumed, on disk when fulfilled. `answer` is what the same request again gets. */
  consume(id: string, answer: VaultAnswer | null): Promise<void>
  /** Approved → failed. */
  fail(id: string): Promise<void>
  watch(listener: (record: ApprovalRecord) => void): () => void
  /** Forgets what is in memory and lets nobody wait any longer: the vault was locked. */
  unload(): void
}

export interface ApprovalBookParts {
  readonly records: Records
  readonly clock: VaultClock
  readonly events: ApprovalEvents
}

export function createApprovalBook({ records, clock, events }: ApprovalBookParts): ApprovalBook {
  const byId = new Map<string, ApprovalRecord>()
  const byKey = new Map<string, string>()
  /** By both clocks, of which one can be turned: when a question was asked, by the monotonic one, and whether its time is over. */
  const times = new Map<string, { readonly askedAtMs: number; readonly isOver: () => boolean }>()
  const asking = new Map<string, Promise<ApprovalRecord>>()
  /** Those whose change is on its way to disk: decided, but nobody may act on it yet. */
  const changing = new Set<string>()
  const waiting = createWaiting()
  const watchers = new Set<(record: ApprovalRecord) => void>()
  let sweep: NodeJS.Timeout | undefined

  const isLive = ({ state }: ApprovalRecord): boolean => state === 'pending' || state === 'approved'

  const publish = (record: ApprovalRecord): void => {
    for (const listener of watchers) listener(record)
  }
  const keep = (record: ApprovalRecord): void => {
    byId.set(record.id, record)
    byKey.set(record.key, record.id)
    keepTime(record)
  }
  const keepTime = ({ id, createdAtMs, expiresAtMs }: ApprovalRecord): void => {
    const now = clock.now()
    times.set(id, {
      askedAtMs: times.get(id)?.askedAtMs ?? clock.monotonicMs() - Math.max(0, now - createdAtMs),
      // After a clock was turned back, too, nothing lives longer than it may.
      isOver: endsIn(clock, Math.min(expiresAtMs - now, APPROVAL_TTL_MS)),
    })
  }
  const isOver = ({ id }: ApprovalRecord): boolean => times.get(id)?.isOver() !== false

  /** Moves an approval on. The first caller wins: between its check and the disk, everyone else finds it closed. */
  async function move(
    id: string,
    from: readonly ApprovalState[],
    change: Partial<ApprovalRecord> & { state: ApprovalState },
  ): Promise<ApprovalRecord> {
    const record = byId.get(id)
    if (record === undefined) throw new VaultError('NOT_FOUND', 'There is no approval of this id.')
    if (changing.has(id) || !from.includes(record.state)) throw resolved(record)
    changing.add(id)
    try {
      const next: ApprovalRecord = { ...record, ...change, parts: keptParts(record.kind, record.parts) }
      await records.putJson('approval', id, next)
      byId.set(id, next)
      if (change.expiresAtMs !== undefined) keepTime(next)
      await events.changed(next)
      waiting.wake(id)
      publish(next)
      return next
    } finally {
      changing.delete(id)
      schedule()
    }
  }

  async function expireIfOver(id: string): Promise<void> {
    const record = byId.get(id)
    if (record === undefined || !isLive(record) || !isOver(record) || changing.has(id)) return
    await move(id, ['pending', 'approved'], { state: 'expired' }).catch((error: unknown) => {
      // Somebody else was first, or the vault is locked: it is looked at again after the next unlock.
      if (!(error instanceof VaultError)) throw error
    })
  }

  function schedule(): void {
    clearTimeout(sweep)
    let next = Number.POSITIVE_INFINITY
    for (const record of byId.values()) if (isLive(record)) next = Math.min(next, record.expiresAtMs)
    if (next === Number.POSITIVE_INFINITY) return
    sweep = setTimeout(() => void sweepNow(), Math.max(1_000, Math.min(next - clock.now(), 60_000)))
    sweep.unref()
  }
  async function sweepNow(): Promise<void> {
    for (const { id } of [...byId.values()].filter(isLive)) await expireIfOver(id).catch(() => undefined)
    schedule()
  }

  async function decide(
    id: string,
    from: readonly ApprovalState[],
    change: Partial<ApprovalRecord> & { state: ApprovalState },
  ): Promise<ApprovalRecord> {
    const record = byId.get(id)
    if (record === undefined) throw new VaultError('NOT_FOUND', 'There is no approval of this id.')
    await expireIfOver(id)
    if (byId.get(id)?.state === 'expired') throw new VaultError('APPROVAL_EXPIRED')
    return move(id, from, { ...change, decidedAtMs: clock.now() })
  }

  /** Questions that are being written: counted, but in `byId` only when they are on disk. */
  const onTheirWay = new Set<NewApproval>()
  /** Agents whose owner was told that they ask too much, and until when that is, by the monotonic clock. */
  const told = new Map<string, number>()
  async function create(init: NewApproval): Promise<ApprovalRecord> {
    assertRoom(init.question)
    const tooMuch = tooMuchOf(init.question.agentId)
    if (tooMuch !== undefined) {
      if (tooMuch.isNew) await events.wornOut?.(init.question, tooMuch.words)
      throw tooMuch.error
    }
    onTheirWay.add(init)
    try {
      return await write(init)
    } finally {
      onTheirWay.delete(init)
    }
  }

  function assertRoom(asked: Question): void {
    const open = [...byId.values()].filter(({ state }) => state === 'pending')
    const all: Question[] = [...open, ...[...onTheirWay].map(({ question }) => question)]
    const own = all.filter(({ agentId }) => agentId === asked.agentId)
    const sum = (questions: readonly Question[]) =>
      questions.reduce((bytes, one) => bytes + sizeOf(one), sizeOf(asked))
    const problem =
      own.length >= MOST_OPEN_PER_AGENT
        ? `Expected at most ${MOST_OPEN_PER_AGENT} open approvals of one agent`
        : sum(own) > MOST_OPEN_BYTES_PER_AGENT
          ? `Expected the open approvals of one agent to show at most ${MOST_OPEN_BYTES_PER_AGENT} bytes`
          : sum(all) > MOST_OPEN_BYTES
            ? `Expected all open approvals to show at most ${MOST_OPEN_BYTES} bytes`
            : undefined
    if (problem === undefined) return
    throw new VaultError('RATE_LIMIT_EXCEEDED', `${problem}; wait until some are answered.`, {
      retryAfterSeconds: 30,
    })
  }

  function tooMuchOf(agentId: string): { words: string; error: VaultError; isNew: boolean } | undefined {
    const nowMs = clock.monotonicMs()
    const ages = [...byId.values()]
      .filter((r) => r.agentId === agentId && r.state !== 'approved' && r.state !== 'consumed')
      .map(({ id, createdAtMs }) => Math.max(clock.now() - createdAtMs, nowMs - times.get(id)!.askedAtMs))
      .sort((a, b) => a - b)
    const coming = [...onTheirWay].filter((one) => one.question.agentId === agentId).length
    for (const { most, windowMs, name } of bounds) {
      // The one whose leaving the window makes room for one more; those on their way came just now.
      const oldestMs = coming >= most ? 0 : ages[most - 1 - coming]
      if (oldestMs === undefined || oldestMs >= windowMs) continue
      const waitMs = windowMs - oldestMs
      const words = `Expected at most ${most} questions of one agent in ${name === 'hour' ? 'an' : 'a'} ${name} that the owner did not approve.`
      const isNew = (told.get(agentId) ?? Number.NEGATIVE_INFINITY) <= nowMs
      if (isNew) told.set(agentId, nowMs + waitMs)
      const retryAfterSeconds = Math.max(1, Math.ceil(waitMs / 1_000))
      const advice = `${words} Ask for less, or ask the owner for rules.`
      const error = new VaultError('RATE_LIMIT_EXCEEDED', advice, { retryAfterSeconds })
      return { words, error, isNew }
    }
    return undefined
  }

  async function write(init: NewApproval): Promise<ApprovalRecord> {
    const { key, question, frozen, decisionHash, reserve } = init
    const id = `apr_${randomBytes(12).toString('base64url')}`
    const held = reserve(id)
    const now = clock.now()
    const record: ApprovalRecord = {
      ...question,
      id,
      state: 'pending',
      key,
      decisionHash: decisionHash(id),
      frozen,
      reservationId: held?.reservationId ?? null,
      createdAtMs: now,
      expiresAtMs: now + APPROVAL_TTL_MS,
      decidedAtMs: null,
      decidedBy: null,
      answer: null,
    }
    await Promise.all([held?.durable, records.putJson('approval', id, record, { ifVersion: 0 })])
    keep(record)
    onTheirWay.delete(init)
    await events.changed(record)
    publish(record)
    schedule()
    void prune()
    return record
  }

  async function prune(): Promise<void> {
    if (byId.size <= MOST_KEPT) return
    for (const record of byId.values()) {
      if (byId.size <= MOST_KEPT) return
      if (isLive(record)) continue
      byId.delete(record.id)
      times.delete(record.id)
      if (byKey.get(record.key) === record.id) byKey.delete(record.key)
      await records.delete('approval', record.id).catch(() => undefined)
    }
  }

  return {
    async load() {
      const read = records
        .list('approval')
        .map(({ id }) => records.getJson<ApprovalRecord>('approval', id))
        .filter((record) => record !== undefined)
        .sort((a, b) => a.createdAtMs - b.createdAtMs)
      byId.clear()
      byKey.clear()
      times.clear()
      for (const record of read) keep(record)
      await sweepNow()
    },
    get: (id) => byId.get(id),
    list: () => [...byId.values()].reverse(),
    byKey(key, isKeyed) {
      const record = byId.get(byKey.get(key) ?? '')
      return record && joined(record, isOver(record), isKeyed)
    },
    isBeingAsked: (key) => asking.has(key),
    ask(init) {
      const before = asking.get(init.key)
      if (before !== undefined) return before
      const asked = create(init).finally(() => asking.delete(init.key))
      asking.set(init.key, asked)
      return asked
    },
    async settled(id, waitMs, signal) {
      if (waitMs > 0 && byId.get(id)?.state === 'pending') await waiting.until(id, waitMs, signal)
      await expireIfOver(id)
      const record = byId.get(id)
      if (record === undefined) throw new VaultError('VAULT_LOCKED')
      return record
    },
    async approve(id, decisionHash, by, secondWord) {
      const record = byId.get(id)
      if (record !== undefined && record.decisionHash !== decisionHash)
        throw new VaultError(
          'APPROVAL_RESOLVED',
          'Expected the decision_hash of this approval as it stands; read it again, then decide.',
        )
      if (record !== undefined) assertSecondWord(record, secondWord)
      return decide(id, ['pending'], {
        state: 'approved',
        decidedBy: by,
        expiresAtMs: clock.now() + APPROVAL_TTL_MS,
      })
    },
    deny: (id, by) => decide(id, ['pending'], { state: 'denied', decidedBy: by }),
    cancel: (id, by) => decide(id, ['pending', 'approved'], { state: 'canceled', decidedBy: by }),
    async consume(id, answer) {
      await move(id, ['approved'], { state: 'consumed', answer })
    },
    async fail(id) {
      await move(id, ['approved'], { state: 'failed' })
    },
    watch(listener) {
      watchers.add(listener)
      return () => void watchers.delete(listener)
    },
    unload() {
      clearTimeout(sweep)
      byId.clear()
      byKey.clear()
      waiting.wakeAll()
    },
  }
}

/** What a question holds of others' texts, in characters; its other fields are short. */
const sizeOf = ({ parts, plainWords, warnings }: Question): number =>
  [...parts.map(({ text }) => text), ...plainWords, ...warnings].reduce((sum, { length }) => sum + length, 0)

const resolved = (record: ApprovalRecord): VaultError =>
  record.state === 'expired'
    ? new VaultError('APPROVAL_EXPIRED')
    : new VaultError('APPROVAL_RESOLVED', `Expected an open approval; this one is ${record.state}.`, {
        details: { status: record.state },
      })
