import type { Receipt } from '../../../../core/evm/transferProof.ts'
import type { ContractCall, TransactOutcome } from '../../../../core/ports/chains/settler.ts'
import { quantity, RpcRefused } from '../../../../core/rpc/post.ts'
import type { Rpc } from '../../../../core/rpc/rpc.ts'
import type { Budgets } from '../../budgets.ts'
import { admissionRefusals } from '../../refusals.ts'
import type { EvmSettlerOptions } from '../options.ts'
import { isRevert } from '../rpc/nodes.ts'
import { type EvmKeys, minFee } from './keys.ts'
import type { ReceiptWatch } from './receipts.ts'
import { costOf } from './settlement.ts'

/**
 * Room above the node's gas estimate. The state may change before the block, for example from a zero balance to none, which costs
 * more.
 */
const gasLimitOf = (estimate: bigint): number => Number((estimate * 5n) / 4n + 20_000n)

/** How long a call that is not mined is not sent again, in ms. It may never be mined. */
const PENDING_MS = 300_000

/** A node's text in a message, shortened and with printable characters only. */
const printable = (text: string): string => text.replace(/[^\x20-\x7e]/g, '?').slice(0, 200)

const refused = (message: string, isRevert = false): TransactOutcome => ({
  status: 'refused',
  isRevert,
  message,
})

function outcomeOf(transaction: string, receipt: Receipt | undefined): TransactOutcome {
  if (receipt === undefined) return { status: 'pending', transaction }
  return { status: receipt.status === '0x1' ? 'done' : 'reverted', transaction }
}

export interface TransactingDeps {
  readonly options: Required<EvmSettlerOptions>
  readonly rpc: Rpc
  readonly keys: EvmKeys
  readonly budgets: Budgets
  readonly receipts: ReceiptWatch
}

/**
 * Sends calls that are no payments from the settling accounts, between the payments. The nonce queue, the fees and the wait for the
 * receipt are those of payments, but the ledger has no attempt of such a call.
 */
export class Transacting {
  readonly #deps: TransactingDeps
  /** Calls in progress by their data, such as a deposit that a buyer repeats. */
  readonly #sending = new Map<string, Promise<TransactOutcome>>()
  /** Calls that were sent and not mined in time, by their data. */
  readonly #pending = new Map<string, { readonly transaction: string; readonly atMs: number }>()

  constructor(deps: TransactingDeps) {
    this.#deps = deps
  }

  /** See `Settler.transact`. */
  send(call: ContractCall, storeId: string | null): Promise<TransactOutcome> {
    const known = this.#sending.get(call.data)
    if (known !== undefined) return known
    const sending = this.#sendOrWait(call, storeId).finally(() => this.#sending.delete(call.data))
    this.#sending.set(call.data, sending)
    return sending
  }

  async #sendOrWait(call: ContractCall, storeId: string | null): Promise<TransactOutcome> {
    const { receiptTimeoutMs, firstPollMs } = this.#deps.options
    for (const [data, { atMs }] of this.#pending)
      if (performance.now() - atMs > PENDING_MS) this.#pending.delete(data)
    const { transaction } = this.#pending.get(call.data) ?? {}
    if (transaction === undefined) {
      const outcome = await this.#send(call, storeId)
      if (outcome.status === 'pending')
        this.#pending.set(call.data, { transaction: outcome.transaction, atMs: performance.now() })
      return outcome
    }
    const receipt = await this.#deps.receipts.wait(transaction, receiptTimeoutMs, firstPollMs)
    if (receipt !== undefined) this.#pending.delete(call.data)
    return outcomeOf(transaction, receipt)
  }

  async #send(call: ContractCall, storeId: string | null): Promise<TransactOutcome> {
    const { options, keys } = this.#deps
    if (!keys.isStarted) return refused('Settlement on this network begins in a moment.')
    try {
      const { account, heads } = keys.all[0]!
      const [estimate, head] = await Promise.all([this.#estimate(call, account.address), heads.current()])
      if (typeof estimate !== 'bigint') return estimate
      const gas = gasLimitOf(estimate)
      if (storeId !== null && gas > options.maxGas)
        return refused(`it needs ${gas} gas, and this network allows ${options.maxGas}`, true)
      return await this.#sendWithin(call, gas, estimate * minFee(head, options), storeId)
    } catch (error) {
      options.log.warn({ network: options.network, error: String(error) }, 'a contract could not be called')
      return refused('The gateway cannot query the chain now.')
    }
  }

  /** The estimate is a simulation too, because a call that reverts has none. */
  async #estimate(call: ContractCall, from: string): Promise<bigint | TransactOutcome> {
    try {
      return quantity(await this.#deps.rpc.call('eth_estimateGas', { from, ...call }))
    } catch (error) {
      if (error instanceof RpcRefused && isRevert(error)) return refused(printable(error.message), true)
      throw error
    }
  }

  async #sendWithin(
    call: ContractCall,
    gas: number,
    likelyWei: bigint,
    storeId: string | null,
  ): Promise<TransactOutcome> {
    const { options, keys, budgets } = this.#deps
    const noGas = storeId === null ? undefined : budgets.reserveGas(storeId, likelyWei)
    if (noGas !== undefined) return refused(admissionRefusals[noGas].message)
    let spentWei = 0n
    try {
      const sending = await keys.send(call, gas, [])
      if (!sending.ok) return refused(sending.message)
      const { attempt, receipt: landing } = sending.sent!
      const { transaction } = attempt
      spentWei = likelyWei
      const receipt = await landing
      if (receipt !== undefined) spentWei = costOf(receipt, 1, attempt.bytes, options) ?? likelyWei
      return outcomeOf(transaction, receipt)
    } finally {
      if (storeId !== null) budgets.countGas(storeId, likelyWei, spentWei)
    }
  }
}
