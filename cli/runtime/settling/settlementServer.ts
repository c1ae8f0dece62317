import type { StoreId } from '../../../core/domain/link.ts'
import type { NetworkId } from '../../../core/domain/network.ts'
import type { PaymentIdentity, SettlementAttempt } from '../../../core/domain/payment.ts'
import type { Chains } from '../../../core/ports/chains/chains.ts'
import type {
  ContractCall,
  Hold,
  Refusal,
  SettleOutcome,
  Settler,
  TransactOutcome,
} from '../../../core/ports/chains/settler.ts'
import type { PaymentPayload, PaymentRequirements } from '../../../core/x402/types.ts'

/**
 * Messages to the process that settles, from a worker to its primary or from a gateway to the process that holds a key's lease.
 * `call` is the same in a request and its responses, and unique in the sending process.
 */
export type SettlementRequest =
  /** Asks whether the payment can be settled. If it can, its slot is held until it is settled or released. */
  | {
      readonly type: 'verify'
      readonly call: number
      readonly network: string
      readonly payment: PaymentPayload
      readonly terms: PaymentRequirements
      readonly identity: PaymentIdentity
      readonly storeId: StoreId
    }
  /** Releases a held slot that will not be used. @property held the `call` of the `verify` request */
  | { readonly type: 'release'; readonly held: number }
  | {
      readonly type: 'settle'
      readonly call: number
      readonly network: string
      readonly payment: PaymentPayload
      readonly terms: PaymentRequirements
      readonly identity: PaymentIdentity
      /** The `call` of the payment's `verify` request. */
      readonly held?: number
      /**
       * Set if the request is sent again. It is the turn of the last attempt that the other process received for storage. That
       * attempt may have been sent, even if the settling process has lost its state.
       */
      readonly turn?: number
    }
  /** States whether the attempt of that turn is on disk. The settling process broadcasts only after `true`. */
  | {
      readonly type: 'stored'
      readonly call: number
      readonly turn: number
      /**
       * The transaction of that attempt. The turn alone is not enough, because a process that has lost its state may have
       * started again with turn 1.
       */
      readonly transaction: string
      readonly ok: boolean
    }
  /** Sends a call that is no payment, such as the deposit of a payment channel. It is safe to repeat, so no attempt is stored. */
  | {
      readonly type: 'transact'
      readonly call: number
      readonly network: string
      readonly contractCall: ContractCall
      readonly storeId: StoreId | null
    }

/** Messages from the process that settles. */
export type SettlementResponse =
  | { readonly type: 'verified'; readonly call: number; readonly refusal: Refusal | null }
  /**
   * A request to store an attempt before it is broadcast. The first attempt of a call has turn 1, and each replacement has the
   * next turn.
   */
  | {
      readonly type: 'store'
      readonly call: number
      readonly turn: number
      readonly attempt: SettlementAttempt
    }
  | { readonly type: 'settled'; readonly call: number; readonly outcome: SettleOutcome }
  | { readonly type: 'transacted'; readonly call: number; readonly outcome: TransactOutcome }
  | { readonly type: 'broken'; readonly call: number; readonly message: string }
  /** The settlement had begun, but this process has lost its state. It does not start the settlement again. */
  | { readonly type: 'forgotten'; readonly call: number }

interface Held {
  readonly hold: Hold
  /** The verified identity. A settler may attach more data to the object than its fields, so the same object is settled. */
  readonly identity: PaymentIdentity
}

/** An attempt that waits until the other process has stored it. */
interface Storing {
  readonly turn: number
  readonly transaction: string
  readonly resolve: (ok: boolean) => void
}

/** A request and its current response, which is sent again when the request is repeated. */
interface Known {
  /** The response, or the request to store an attempt. Absent while the settler works on the request. */
  response?: SettlementResponse
  endedMs?: number
}

/**
 * Verifies and settles the payments of one other process, with the settlers of this process. One nonce queue and one count of
 * payments in flight thus cover all processes.
 */
export class SettlementServer {
  readonly #chains: Pick<Chains, 'settler'>
  readonly #send: (message: SettlementResponse) => void
  readonly #retentionMs: number
  /** Requests by their `call`, in order of arrival. */
  readonly #known = new Map<number, Known>()
  readonly #storing = new Map<number, Storing>()
  readonly #held = new Map<number, Held>()
  #isLost = false

  /**
   * @param retentionMs how long a response is kept for a repeated request, in ms, if messages may be lost. The default 0 is for
   *   channels that lose no messages, where each request is new
   */
  constructor(
    chains: Pick<Chains, 'settler'>,
    send: (message: SettlementResponse) => void,
    retentionMs: number = 0,
  ) {
    this.#chains = chains
    this.#send = send
    this.#retentionMs = retentionMs
  }

  /** @returns false for a message that is not a {@link SettlementRequest} */
  receive(message: SettlementRequest | { readonly type: string }): boolean {
    const request = message as SettlementRequest
    switch (request.type) {
      case 'verify':
        if (!this.#isKnown(request.call)) this.#run(request.call, this.#verify(request))
        return true
      case 'settle':
        if (this.#isKnown(request.call)) return true
        if (request.turn === undefined) this.#run(request.call, this.#settle(request))
        else this.#end({ type: 'forgotten', call: request.call })
        return true
      case 'transact':
        if (!this.#isKnown(request.call)) this.#run(request.call, this.#transact(request))
        return true
      case 'release':
        this.#take(request.held)?.hold.release()
        return true
      case 'stored':
        this.#stored(request)
        return true
      default:
        return false
    }
  }

  /**
   * Called when the other process has ended. Attempts that wait to be stored are dropped and never broadcast. Slots that are
   * held for its calls are released.
   */
  lost(): void {
    this.#isLost = true
    for (const { resolve } of this.#storing.values()) resolve(false)
    this.#storing.clear()
    for (const { hold } of this.#held.values()) hold.release()
    this.#held.clear()
  }

  async #verify(request: Extract<SettlementRequest, { type: 'verify' }>): Promise<void> {
    const { call, network, payment, terms, identity, storeId } = request
    const verified = await this.#settlerOf(network).verify(payment, terms, identity, { storeId })
    if (!verified.ok) return this.#end({ type: 'verified', call, refusal: verified })
    if (this.#isLost) return verified.hold.release()
    this.#held.set(call, { hold: verified.hold, identity })
    this.#end({ type: 'verified', call, refusal: null })
  }

  async #settle(request: Extract<SettlementRequest, { type: 'settle' }>): Promise<void> {
    const { call, network, payment, terms } = request
    const verified = this.#take(request.held)
    const identity = verified?.identity ?? request.identity
    let turn = 0
    const store = (attempt: SettlementAttempt) =>
      new Promise<boolean>((resolve) => {
        if (this.#isLost) return resolve(false)
        this.#storing.set(call, { turn: ++turn, transaction: attempt.transaction, resolve })
        const response: SettlementResponse = { type: 'store', call, turn, attempt }
        const known = this.#known.get(call)
        if (known !== undefined) known.response = response
        this.#send(response)
      })
    const settler = this.#settlerOf(network)
    const outcome = await settler.settle(payment, terms, identity, store, verified?.hold)
    this.#storing.delete(call)
    this.#end({ type: 'settled', call, outcome })
  }

  async #transact(request: Extract<SettlementRequest, { type: 'transact' }>): Promise<void> {
    const { call, network, contractCall, storeId } = request
    const outcome = await this.#settlerOf(network).transact!(contractCall, storeId)
    this.#end({ type: 'transacted', call, outcome })
  }

  #stored({ call, turn, transaction, ok }: Extract<SettlementRequest, { type: 'stored' }>): void {
    const storing = this.#storing.get(call)
    // The message is about an attempt that was replaced meanwhile.
    if (storing?.turn !== turn || storing.transaction !== transaction) return
    this.#storing.delete(call)
    const known = this.#known.get(call)
    if (known !== undefined) delete known.response
    storing.resolve(ok)
  }

  #end(response: Exclude<SettlementResponse, { type: 'store' }>): void {
    const nowMs = performance.now()
    const ended = this.#known.get(response.call)
    if (ended !== undefined) Object.assign(ended, { response, endedMs: nowMs })
    for (const [call, { endedMs }] of this.#known) {
      if (endedMs === undefined || endedMs > nowMs - this.#retentionMs) break
      this.#known.delete(call)
    }
    this.#send(response)
  }

  /** Whether the request is a repeat. If the request already has a response, that response is sent again. */
  #isKnown(call: number): boolean {
    const known = this.#known.get(call)
    if (known === undefined) {
      if (this.#retentionMs > 0) this.#known.set(call, {})
      return false
    }
    if (known.response !== undefined) this.#send(known.response)
    return true
  }

  #take(call: number | undefined): Held | undefined {
    if (call === undefined) return undefined
    const held = this.#held.get(call)
    this.#held.delete(call)
    return held
  }

  #run(call: number, work: Promise<void>): void {
    work.catch((error: unknown) => {
      const message = error instanceof Error ? error.message : String(error)
      this.#end({ type: 'broken', call, message })
    })
  }

  #settlerOf(network: string): Settler {
    const settler = this.#chains.settler(network as NetworkId)
    if (settler === undefined) throw new Error(`${network} is not configured`)
    return settler
  }
}
