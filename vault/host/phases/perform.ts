import { randomBytes } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { VaultOperation, VaultResponse } from '../../../core/plugin/vault.ts'
import type { Log } from '../../../core/ports/log.ts'
import { APPROVAL_TTL_MS, type ApprovalBook } from '../../approvals/approvalBook.ts'
import { type Decoded, feesId } from '../../effects/effect.ts'
import { amountWords } from '../../effects/plainWords.ts'
import { isVaultError, VaultError } from '../../errors/error.ts'
import type { BudgetBook, BudgetRefusal, Reservation } from '../../ports/budget.ts'
import type { Vault } from '../../ports/vault.ts'
import { actionOf, eventOf } from '../auditing.ts'
import { type HostHooks, type HostPlugin, signatureId, type VaultCall } from '../vaultCall.ts'

/** Maximum stored responses for repeated requests. Each is stored as long as an approved response. */
const MAX_ANSWERS = 1_000

/**
 * Performs a granted request. Copies of it that arrive meanwhile do not perform it again. Money is reserved in the journal
 * before the signature leaves the vault, and the log entry is written before the response is sent.
 */
export class Performing implements HostPlugin {
  readonly name = 'perform'
  readonly slots = { perform: { reads: ['request'], writes: ['response'] } } as const
  readonly #vault: Vault
  readonly #book: ApprovalBook
  readonly #running = new Map<string, Promise<VaultResponse>>()
  /** The encoding in which bytes are being signed now, by {@link sameId}. */
  readonly #encodings = new Map<string, string>()
  readonly #responses = new LRUCache<string, VaultResponse>({ max: MAX_ANSWERS, ttl: APPROVAL_TTL_MS })
  /** Reservations without a signature that could not be released, because the vault was locked meanwhile. */
  readonly #unsigned = new Set<string>()

  constructor(vault: Vault, book: ApprovalBook) {
    this.#vault = vault
    this.#book = book
    vault.onLock(() => this.#responses.clear())
  }

  route(operation: VaultOperation): HostHooks {
    return {
      perform: (x) => {
        const plan = x.plan!
        if (operation === 'vault_preview') return plan.act(x.requestId, null)
        if (operation === 'get_address') return this.#giveAddress(x)
        if (x.approval !== null) return this.#together(x.approval.id, x, () => this.#doApproved(x))
        if (plan.repeat === 'same') return this.#doSame(x)
        // A request that spends nothing and may be repeated needs no protection against concurrent copies.
        if (plan.spends.length === 0 && plan.repeat === 'new') return this.#doAlone(x, newAttempt())
        // The budget counts a request with an Idempotency-Key by that key, so that it recognizes the request after a restart.
        const spendId = x.idempotencyKey === null ? newAttempt() : `key_${x.key}`
        return this.#together(x.key, x, () => this.#doAlone(x, spendId))
      },
    }
  }

  /** Commits or releases the reservations that were open when the vault was closed, locked or killed. */
  async settle(ids: readonly string[], log: Log): Promise<void> {
    for (const id of ids) await this.#settle(id, log)
    for (const record of this.#book.list()) {
      const { state, reservationId, operation, agentId, frozenHash } = record
      if (state !== 'consumed' || reservationId === null || !ofSameBytes.has(operation)) continue
      // The vault crashed after the approval was used, and before the signature was marked as counted.
      markCounted(this.#vault.budget, agentId, signatureId(agentId, actionOf(operation), frozenHash))
    }
  }

  async #settle(id: string, log: Log): Promise<void> {
    const { budget } = this.#vault
    const approval = id.startsWith('apr_') ? this.#book.get(id) : undefined
    if (approval?.state === 'pending' || approval?.state === 'approved') return
    const isUnanswered = id.startsWith('apr_') && approval?.state !== 'consumed'
    try {
      // An approval that was never written was never decided, so its money is released. For any other reservation, a signature
      // may have left the vault, so the money stays spent.
      if (this.#unsigned.delete(id) || isUnanswered) await budget.release(id)
      else budget.commit(id)
    } catch (err) {
      log.debug({ err, id }, 'the reservation was already committed or released')
    }
  }

  /** Returns an address before its log entry is on disk, because an address is no secret. */
  #giveAddress(x: VaultCall): Promise<VaultResponse> {
    x.isLogged = true
    this.#vault.audit.append(eventOf(x, 'AUTO_APPROVED'), true).catch(() => undefined)
    return x.plan!.act(x.requestId, null)
  }

  #together(key: string, x: VaultCall, work: () => Promise<VaultResponse>): Promise<VaultResponse> {
    const others = this.#running.get(key)
    if (others !== undefined) {
      x.isLogged = true
      return others
    }
    const done = work().finally(() => this.#running.delete(key))
    this.#running.set(key, done)
    return done
  }

  /**
   * Signs the same bytes only once, regardless of how often and with which claims they are requested. The budget counts them by
   * their hash, also after a restart, and the log has one entry. If a request asks for another encoding, it gets the same
   * signature in that encoding.
   */
  #doSame(x: VaultCall): VaultResponse | Promise<VaultResponse> {
    const id = sameId(x)
    const { encoding = 'none' } = x.plan!.judged?.decoded ?? {}
    const before = this.#responses.get(`${id} ${encoding}`)
    if (before !== undefined) {
      x.isLogged = true
      return before
    }
    const others = this.#running.get(id)
    // The attempts run one after the other. If one fails, it releases its money, which must not be that of a concurrent
    // signature.
    if (others !== undefined && this.#encodings.get(id) !== encoding)
      return others.then(
        () => this.#doSame(x),
        () => this.#doSame(x),
      )
    this.#encodings.set(id, encoding)
    return this.#together(id, x, async () => {
      try {
        const response = await this.#doAlone(x, id)
        if (!this.#vault.state.locked) this.#responses.set(`${id} ${encoding}`, response)
        return response
      } finally {
        this.#encodings.delete(id)
      }
    })
  }

  async #doAlone(x: VaultCall, spendId: string): Promise<VaultResponse> {
    const { audit, budget } = this.#vault
    const held = reserve(budget, x, spendId)
    // Until now, an earlier attempt with this id may have signed nothing. From now on, a signature may leave the vault.
    const wasUnsigned = this.#unsigned.delete(spendId)
    const isCounted = held?.isRepeat === true && !wasUnsigned
    // Each signature of such a request is another payment, and the payment of this key may already have left the vault.
    if (isCounted && x.plan!.repeat === 'new')
      throw new VaultError(
        'REQUEST_ID_USED',
        'A payment with this Idempotency-Key was already signed, and the vault did not store its response. Use a new key to pay again.',
      )
    if (x.plan!.repeat === 'once') return this.#doOnce(x, 'AUTO_APPROVED')
    let response: VaultResponse
    try {
      response = await x.plan!.act(newAttempt(), held === null ? null : spendId)
    } catch (error) {
      if (held !== null && !isCounted)
        await budget.release(spendId).catch(() => void this.#unsigned.add(spendId))
      throw error
    }
    x.isLogged = true
    const isSame = x.plan!.repeat === 'same'
    const actName = isSame ? spendId : x.onceAct
    // If the vault crashed between the log entry and the response, the repeated request gets its response, and the entry exists
    // already.
    const logged =
      isSame && audit.hasAct(spendId)
        ? undefined
        : audit.append({
            ...eventOf(x, 'AUTO_APPROVED'),
            ...(actName !== undefined && { act: actName }),
          })
    await Promise.all([held?.durable, logged])
    if (held !== null) this.#commit(spendId, held.isRepeat)
    return response
  }

  /**
   * Performs an action that cannot be undone. Its log entry is written first, because during the action the vault may be locked
   * or killed, or the disk may become full.
   */
  async #doOnce(x: VaultCall, status: 'APPROVED' | 'AUTO_APPROVED'): Promise<VaultResponse> {
    const act = x.onceAct
    if (x.approval === null || !this.#vault.audit.hasAct(x.approval.id))
      await this.#vault.audit.append({ ...eventOf(x, status), ...(act !== undefined && { act }) })
    if (x.approval !== null) await this.#book.consume(x.approval.id, null)
    x.isLogged = true
    try {
      return await x.plan!.act(newAttempt(), null)
    } catch (error) {
      x.isLogged = false
      throw error
    }
  }

  /**
   * Commits reserved money. A repeated request may use money that an earlier attempt reserved, and which that attempt has
   * usually committed.
   */
  #commit(spendId: string, isRepeat: boolean): void {
    try {
      this.#vault.budget.commit(spendId)
    } catch (error) {
      if (!isRepeat || !isVaultError(error) || error.code !== 'NOT_FOUND') throw error
    }
  }

  async #doApproved(x: VaultCall): Promise<VaultResponse> {
    const approval = this.#book.get(x.approval!.id) ?? x.approval!
    // Another request with the same approval has already finished.
    if (approval.state === 'consumed' && approval.response !== null) return approval.response
    if (approval.state !== 'approved')
      throw new VaultError('APPROVAL_RESOLVED', `The approval is ${approval.state}.`)
    const { repeat, act } = x.plan!
    if (repeat === 'once') return this.#doOnce(x, 'APPROVED')
    const answerKept = repeat === 'same' || x.idempotencyKey !== null
    let response: VaultResponse
    try {
      response = await act(newAttempt(), approval.reservationId)
    } catch (error) {
      // After a retryable failure, the approval stays usable.
      if (isVaultError(error) && !error.retryable) await this.#book.fail(approval.id)
      x.isLogged = false
      throw error
    }
    // The log is written before the approval. A repeated request gets the response only after the approval is consumed, so
    // after a crash between the writes the entry is already there.
    const actName = repeat === 'same' ? sameId(x) : x.onceAct
    if (!this.#vault.audit.hasAct(approval.id))
      await this.#vault.audit.append({
        ...eventOf(x, 'APPROVED'),
        ...(actName !== undefined && { act: actName }),
      })
    await this.#book.consume(approval.id, answerKept ? response : null)
    if (repeat === 'same' && approval.reservationId !== null)
      markCounted(this.#vault.budget, x.caller.id, sameId(x))
    return response
  }
}

const sameId = ({ caller, plan }: VaultCall): string => signatureId(caller.id, plan!.action, plan!.frozenHash)

const newAttempt = (): string => `req_${randomBytes(12).toString('base64url')}`

/** Operations that give the same result when they are repeated. */
const ofSameBytes: ReadonlySet<VaultOperation> = new Set([
  'vault_sign_tx',
  'vault_sign_message',
  'vault_sign_typed_data',
])

/**
 * Reserves the maximum cost of a request. All limits are checked and the amount is counted in one step. Does nothing for a
 * request without cost.
 *
 * @throws `BUDGET_EXCEEDED_TX`, `BUDGET_EXCEEDED_DAILY`
 */
export function reserve(budget: BudgetBook, x: VaultCall, id: string): Reservation | null {
  const { spends } = x.plan!
  if (spends.length === 0) return null
  const held = budget.reserve({ id, agentId: x.caller.id, spends, limits: x.limits })
  if (!held.ok) throw budgetError(held, x.plan!.judged?.decoded)
  return held
}

/** Marks a signature's money as counted. The same bytes are not counted again, even if another approval allows them later. */
export function markCounted(budget: BudgetBook, agentId: string, id: string): void {
  try {
    if (budget.isCommitted(id)) return
    const marked = budget.reserve({ id, agentId, spends: [], limits: [] })
    if (!marked.ok || marked.isRepeat) return
    budget.commit(id)
  } catch {
    // The vault was locked meanwhile, so the mark is set after the next unlock.
  }
}

/** @param decoded the request for which the money is reserved. The error uses its assets' symbols */
export function budgetError(refusal: BudgetRefusal, decoded?: Decoded): VaultError {
  const { subject } = refusal
  const owner =
    subject.kind === 'agent' ? 'the agent' : subject.kind === 'vault' ? 'the vault' : 'this recipient'
  const words = (amount: bigint): string => limitWords(refusal.asset, amount, decoded)
  const span = refusal.code === 'BUDGET_EXCEEDED_TX' ? 'one transaction' : 'a day'
  return new VaultError(
    refusal.code,
    `Expected at most ${words(refusal.limit)} for ${owner} in ${span}, got ${words(refusal.requested)}; ` +
      `${words(refusal.used)} already used.`,
    {
      details: {
        asset: refusal.asset,
        subject: subject.kind,
        limit: String(refusal.limit),
        used: String(refusal.used),
        requested: String(refusal.requested),
        resets_at: refusal.resetsAt,
      },
    },
  )
}

function limitWords(id: string, amount: bigint, decoded: Decoded | undefined): string {
  const effects = decoded?.effects ?? []
  const assets = effects.flatMap((effect) => ('asset' in effect ? [effect.asset] : []))
  const known = decoded === undefined ? assets : [decoded.fee.asset, ...assets]
  const asset = known.find((one) => one.id === id)
  if (asset !== undefined) return amountWords(asset, amount)
  const native = known.find((one) => feesId(one) === id)
  return native === undefined
    ? `${amount} smallest units of ${id}`
    : `${amountWords(native, amount)} of fees on ${native.chain}`
}
