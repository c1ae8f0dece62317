import { type EvmCall, uintWord } from '../../../../core/evm/token.ts'
import type { Rpc } from '../../../../core/rpc/rpc.ts'
import type { EvmSettlerOptions } from '../options.ts'
import type { Store } from './account.ts'
import type { EvmKeys } from './keys.ts'
import { aggregate3, multicall3 } from './multicall.ts'
import type { Sent } from './receipts.ts'

/**
 * Gas limit that each payment adds to a batch. A USDC transfer by authorization to an empty account takes about half of it. Unused
 * gas costs nothing.
 */
const CALL_GAS = 150_000
const BASE_GAS = 60_000
/**
 * A transaction may use at most this fraction (1/4) of a block's gas, because larger transactions wait longer for a block with
 * room.
 */
const BLOCK_PARTS = 4n
/** How long the first payment of a batch waits while further payments keep coming, in batch windows. */
const MAX_WINDOWS = 10
/** How long payments are sent one by one, in ms, after a payment failed in a batch although it could land alone. */
const ALONE_MS = 60_000
/** How long after Multicall3 was missing, or after no response, the chain is asked for it again, in ms. */
const PROBE_AGAIN_MS = 600_000
const RETRY_MS = 30_000

export interface BatchesDeps {
  readonly options: Required<EvmSettlerOptions>
  readonly rpc: Rpc
  readonly keys: EvmKeys
}

/**
 * Settles payments that come at the same time in one transaction. Multicall3 makes their calls, and the failure of one call does
 * not affect the others. Only payments of plain accounts (without contract code) are batched, because a wallet contract could use
 * up the gas of the other calls. The key is chosen when the batch is full, so that transactions are spread over the keys.
 */
export class Batches {
  readonly #deps: BatchesDeps
  readonly #callGas: number
  #isThere = false
  #probedAtMs = Number.NEGATIVE_INFINITY
  #probeAgainMs = RETRY_MS
  #aloneUntilMs = Number.NEGATIVE_INFINITY
  #batch: Joining[] = []
  #firstAtMs = 0
  #timer: NodeJS.Timeout | undefined

  constructor(deps: BatchesDeps) {
    this.#deps = deps
    this.#callGas = Math.min(CALL_GAS, deps.options.maxGas)
  }

  /**
   * Finds out whether the chain has Multicall3. Until then payments are not batched. An address without code accepts any call and
   * does nothing, so the probe checks the response. Never rejects.
   */
  async probe(): Promise<void> {
    const { options, rpc } = this.#deps
    const { network, log, clock } = options
    this.#probedAtMs = clock.now()
    this.#probeAgainMs = RETRY_MS
    try {
      const response = await rpc.call('eth_call', { to: multicall3, data: aggregate3([]).data }, 'latest')
      this.#isThere = response === noResults
    } catch {
      return
    }
    this.#probeAgainMs = PROBE_AGAIN_MS
    log.debug({ network, isThere: this.#isThere }, 'the chain was queried for Multicall3')
  }

  /** Whether payments are batched at all. */
  get isOn(): boolean {
    const { maxPaymentsPerTransaction, clock } = this.#deps.options
    if (maxPaymentsPerTransaction === 1) return false
    if (Math.abs(clock.now() - this.#probedAtMs) >= this.#probeAgainMs && !this.#isThere) void this.probe()
    return this.#isThere && performance.now() >= this.#aloneUntilMs
  }

  /**
   * Waits a moment for further payments. Never rejects.
   *
   * @returns `alone` if the caller has to send the payment in a transaction of its own; `not_stored` if its store refused the
   * attempt
   */
  join(call: EvmCall, store: Store): Promise<Sent | 'alone' | 'not_stored'> {
    const { batchWindowMs } = this.#deps.options
    return new Promise((resolve) => {
      this.#batch.push({ call, store, resolve })
      if (this.#batch.length >= this.#maxPayments()) return this.#flush()
      const nowMs = performance.now()
      if (this.#batch.length === 1) this.#firstAtMs = nowMs
      clearTimeout(this.#timer)
      const leftMs = Math.max(0, this.#firstAtMs + MAX_WINDOWS * batchWindowMs - nowMs)
      this.#timer = setTimeout(() => this.#flush(), Math.min(batchWindowMs, leftMs))
    })
  }

  /** Stops batching for a while, because a payment failed in a batch although it could land alone. */
  distrust(): void {
    const { network, log } = this.#deps.options
    this.#aloneUntilMs = performance.now() + ALONE_MS
    log.warn(
      { network },
      'a transaction of several payments left out a valid payment, so each payment is sent alone for now',
    )
  }

  #maxPayments(): number {
    const { options, keys } = this.#deps
    const most = options.maxPaymentsPerTransaction
    const blockGas = keys.all[0]!.heads.lately()?.blockGas
    if (blockGas === undefined) return most
    const room = (Number(blockGas / BLOCK_PARTS) - BASE_GAS) / this.#callGas
    return Math.max(1, Math.min(most, Math.floor(room)))
  }

  #flush(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    const members = this.#batch
    this.#batch = []
    if (members.length === 1) members[0]!.resolve('alone')
    else void this.#settleTogether(members)
  }

  /** @param isAgain whether this is the second attempt, without the payments whose stores refused the first */
  async #settleTogether(members: readonly Joining[], isAgain = false): Promise<void> {
    const { options, keys } = this.#deps
    try {
      const gas = BASE_GAS + members.length * this.#callGas
      const call = aggregate3(members.map((member) => member.call))
      const stores = members.map(({ store }) => store)
      const sending = await keys.send(call, gas, stores)
      if (sending.ok) {
        const { sent, isStored } = sending
        if (sent !== undefined) {
          for (const { resolve } of members) resolve(sent)
          return
        }
        // The gateway never sends bytes that charge for a payment without a ledger entry, so the batch is signed again without that
        // payment. There is only one such retry, because a payer can cause it at any time and must not delay the other payments.
        for (const [i, { resolve }] of members.entries()) if (!isStored[i]) resolve('not_stored')
        const others = members.filter((_, i) => isStored[i])
        if (!isAgain && others.length > 1) return await this.#settleTogether(others, true)
      }
    } catch (error) {
      const { network, log } = options
      log.warn({ network, error: String(error) }, 'payments could not be settled together')
    }
    for (const { resolve } of members) resolve('alone')
  }
}

interface Joining {
  readonly call: EvmCall
  readonly store: Store
  readonly resolve: (outcome: Sent | 'alone' | 'not_stored') => void
}

/** A call returns this for an empty list of results. The words are the offset of the list and its length. */
const noResults = `0x${uintWord('32')}${uintWord('0')}`
