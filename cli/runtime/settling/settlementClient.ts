import { notStarted } from '../../../adapters/chains/refusals.ts'
import type { SettlementAttempt } from '../../../core/domain/payment.ts'
import type {
  Hold,
  SettleOutcome,
  Settler,
  TransactOutcome,
  Verified,
} from '../../../core/ports/chains/settler.ts'
import type { SettlementRequest, SettlementResponse } from './settlementServer.ts'

/** A request without a response. */
interface Waiting<T> {
  readonly request: SettlementRequest
  readonly resolve: (value: T) => void
  readonly reject: (error: Error) => void
  readonly sinceMs: number
  sentMs: number
}

/** The storage of one settlement's attempts, for the call in this process. */
interface Storing {
  readonly store: (attempt: SettlementAttempt) => Promise<boolean>
  /** The latest attempt that is stored. A later attempt may replace it, but its bytes may still have been sent. */
  attempt?: SettlementAttempt
  /** The latest turn that was to be stored. Turns number the attempts of a call. */
  turn: number
  transaction?: string
  stored?: Promise<boolean>
}

/** The outcome of a call whose response was lost with the other process. The call may have been sent. */
const lostTransaction: TransactOutcome = { status: 'pending', transaction: '' }

/**
 * Number of this process's last request. It is the same counter for all channels, because a response may arrive on a later
 * channel to the same process, after its own channel was closed.
 */
let lastCall = 0

/**
 * Settlers that verify and settle in another process, which runs a {@link import('./settlementServer.ts').SettlementServer}.
 * That process alone assigns the key's nonces, and counts the payments in flight and their cost.
 */
export class SettlementClient {
  readonly #send: (message: SettlementRequest) => void
  readonly #verifying = new Map<number, Waiting<Verified>>()
  readonly #settling = new Map<number, Waiting<SettleOutcome>>()
  readonly #transacting = new Map<number, Waiting<TransactOutcome>>()
  readonly #stores = new Map<number, Storing>()
  /** Numbers of the requests whose held slots belong to a call of this process. */
  readonly #held = new Set<number>()
  /** The request number of each slot that the other process holds for this process. */
  readonly #heldAs = new WeakMap<Hold, number>()

  /** @param send sends a message to the other process */
  constructor(send: (message: SettlementRequest) => void) {
    this.#send = send
  }

  /** Checks in this process, verifies and settles in the other process. */
  readonly wrap = (settler: Settler): Settler =>
    Object.create(settler, {
      verify: { value: this.#verifyOn(settler.network) },
      settle: { value: this.#settleOn(settler.network) },
      ...(settler.transact !== undefined && { transact: { value: this.#transactOn(settler.network) } }),
      start: { value: async () => undefined },
    }) as Settler

  /** Number of requests that wait for a response. */
  get waiting(): number {
    return this.#verifying.size + this.#settling.size + this.#transacting.size
  }

  /** @returns false for a message that is not a {@link SettlementResponse} */
  receive(message: SettlementResponse | { readonly type: string }): boolean {
    const response = message as SettlementResponse
    switch (response.type) {
      case 'verified': {
        const { call, refusal } = response
        const waiting = this.#end(this.#verifying, call)
        // If no request waits for this response, its held slot is released. After a repeated response, the slot already belongs
        // to a call.
        if (waiting === undefined && refusal === null && !this.#held.has(call))
          this.#send({ type: 'release', held: call })
        waiting?.resolve(refusal ?? { ok: true, hold: this.#holdOf(call) })
        return true
      }
      case 'store':
        void this.#store(response)
        return true
      case 'settled':
        this.#end(this.#settling, response.call)?.resolve(response.outcome)
        return true
      case 'transacted':
        this.#end(this.#transacting, response.call)?.resolve(response.outcome)
        return true
      case 'broken': {
        const { call, message: reason } = response
        const waiting =
          this.#end(this.#verifying, call) ??
          this.#end(this.#settling, call) ??
          this.#end(this.#transacting, call)
        waiting?.reject(new Error(reason))
        return true
      }
      case 'forgotten':
        this.#endAsLost(response.call)
        return true
      default:
        return false
    }
  }

  /**
   * Sends again each request that was sent at least this long ago and has no response. The request keeps its number. This is
   * for channels on which messages may be lost and the other process keeps its responses.
   */
  resend(afterMs: number): void {
    const nowMs = performance.now()
    for (const waiting of [this.#verifying, this.#settling, this.#transacting])
      for (const [call, one] of waiting) {
        if (one.sentMs > nowMs - afterMs) continue
        one.sentMs = nowMs
        const turn = this.#stores.get(call)?.turn ?? 0
        this.#send(one.request.type === 'settle' && turn > 0 ? { ...one.request, turn } : one.request)
      }
  }

  /**
   * Refuses, for now, payments whose request to verify was sent at least this long ago and has no response, because a message
   * was lost. Nothing is charged. If the other process counts such a payment as in flight, it stops doing so.
   */
  refuseLate(afterMs: number): void {
    const lateMs = performance.now() - afterMs
    for (const [call, { sinceMs, resolve }] of this.#verifying) {
      if (sinceMs > lateMs) continue
      this.#verifying.delete(call)
      this.#send({ type: 'release', held: call })
      resolve(notStarted)
    }
  }

  /**
   * Ends settlements and contract calls that were requested at least this long ago and have no outcome, as if the other process had
   * ended.
   */
  endLate(afterMs: number): void {
    const lateMs = performance.now() - afterMs
    for (const [call, { sinceMs }] of this.#settling) if (sinceMs <= lateMs) this.#endAsLost(call)
    for (const [call, { sinceMs }] of this.#transacting)
      if (sinceMs <= lateMs) this.#end(this.#transacting, call)!.resolve(lostTransaction)
  }

  /**
   * Called when the other process no longer settles. It may have sent the stored attempts, so those payments are pending. All
   * other payments were not sent and are not charged.
   */
  lost(): void {
    for (const { resolve } of this.#verifying.values()) resolve(notStarted)
    this.#verifying.clear()
    for (const call of this.#settling.keys()) this.#endAsLost(call)
    for (const { resolve } of this.#transacting.values()) resolve(lostTransaction)
    this.#transacting.clear()
  }

  #verifyOn(network: string): Settler['verify'] {
    return (payment, terms, identity, { storeId }) =>
      new Promise((resolve, reject) => {
        const call = ++lastCall
        const request = { type: 'verify', call, network, payment, terms, identity, storeId } as const
        this.#request(this.#verifying, call, request, resolve, reject)
      })
  }

  #settleOn(network: string): Settler['settle'] {
    return (payment, terms, identity, store, hold) =>
      new Promise((resolve, reject) => {
        const call = ++lastCall
        this.#stores.set(call, { store, turn: 0 })
        const of = hold === undefined ? undefined : this.#heldAs.get(hold)
        // From here on the held slot belongs to the settlement.
        if (hold !== undefined) this.#heldAs.delete(hold)
        if (of !== undefined) this.#held.delete(of)
        const unheld = { type: 'settle', call, network, payment, terms, identity } as const
        const request = of === undefined ? unheld : { ...unheld, held: of }
        this.#request(this.#settling, call, request, resolve, reject)
      })
  }

  #transactOn(network: string): NonNullable<Settler['transact']> {
    return (contractCall, storeId) =>
      new Promise((resolve, reject) => {
        const call = ++lastCall
        const request = { type: 'transact', call, network, contractCall, storeId } as const
        this.#request(this.#transacting, call, request, resolve, reject)
      })
  }

  #request<T>(
    waiting: Map<number, Waiting<T>>,
    call: number,
    request: SettlementRequest,
    resolve: (value: T) => void,
    reject: (error: Error) => void,
  ): void {
    const sinceMs = performance.now()
    waiting.set(call, { request, resolve, reject, sinceMs, sentMs: sinceMs })
    this.#send(request)
  }

  #holdOf(call: number): Hold {
    const hold: Hold = {
      release: () => {
        if (!this.#heldAs.delete(hold)) return
        this.#held.delete(call)
        this.#send({ type: 'release', held: call })
      },
    }
    this.#heldAs.set(hold, call)
    this.#held.add(call)
    return hold
  }

  async #store({ call, turn, attempt }: Extract<SettlementResponse, { type: 'store' }>): Promise<void> {
    const { transaction } = attempt
    const respond = (ok: boolean) => this.#send({ type: 'stored', call, turn, transaction, ok })
    const storing = this.#stores.get(call)
    if (storing === undefined) return respond(false)
    // This message is late, because a later turn exists only after the response to this turn.
    if (turn < storing.turn) return
    if (turn > storing.turn) {
      storing.turn = turn
      storing.transaction = transaction
      // If the database does not respond, the attempt counts as not stored, and is not broadcast.
      storing.stored = storing.store(attempt).catch(() => false)
    } else if (transaction !== storing.transaction) {
      // The same turn with another transaction shows that the other process lost its state and started again. The stored
      // transaction may have been sent, so no other transaction replaces it.
      respond(false)
      return this.#endAsLost(call)
    }
    const ok = await storing.stored!
    if (ok && turn === storing.turn) storing.attempt = attempt
    respond(ok)
  }

  /**
   * Ends a call as if the other process had ended. From here on, this process stores nothing more for the call and refuses late
   * requests to store.
   */
  #endAsLost(call: number): void {
    const storing = this.#stores.get(call)
    const waiting = this.#end(this.#settling, call)
    if (waiting !== undefined) void outcomeOfLost(storing).then(waiting.resolve)
  }

  #end<T>(waiting: Map<number, Waiting<T>>, call: number): Waiting<T> | undefined {
    const one = waiting.get(call)
    waiting.delete(call)
    this.#stores.delete(call)
    return one
  }
}

async function outcomeOfLost(storing: Storing | undefined): Promise<SettleOutcome> {
  const isStored = await storing?.stored
  if (storing?.attempt === undefined && isStored !== true) return { ...notStarted, status: 'rejected' }
  const transaction = storing?.attempt?.transaction ?? ''
  return { status: 'pending', transaction, reason: 'settlement_pending' }
}
