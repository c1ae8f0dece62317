import type { ContractCall, TransactOutcome } from '../../../../core/ports/chains/settler.ts'
import { quantity, RpcRefused } from '../../../../core/rpc/post.ts'
import type { Rpc } from '../../../../core/rpc/rpc.ts'
import type { Budgets } from '../../budgets.ts'
import { admissionRefusals } from '../../refusals.ts'
import type { EvmSettlerOptions } from '../options.ts'
import { isRevert } from '../rpc/nodes.ts'
import { type EvmKeys, minFee } from './keys.ts'
import { costOf } from './settlement.ts'

/**
 * Room above the node's gas estimate. The state may change before the block, for example from a zero balance to none, which costs
 * more.
 */
const gasLimitOf = (estimate: bigint): number => Number((estimate * 5n) / 4n + 20_000n)

/** A node's text in a message, shortened and with printable characters only. */
const printable = (text: string): string => text.replace(/[^\x20-\x7e]/g, '?').slice(0, 200)

const refused = (message: string, isRevert = false): TransactOutcome => ({
  status: 'refused',
  isRevert,
  message,
})

export interface TransactingDeps {
  readonly options: Required<EvmSettlerOptions>
  readonly rpc: Rpc
  readonly keys: EvmKeys
  readonly budgets: Budgets
}

/**
 * Sends calls that are no payments from the settling accounts, between the payments. The nonce queue, the fees and the wait for the
 * receipt are those of payments, but the ledger has no attempt of such a call.
 */
export class Transacting {
  readonly #deps: TransactingDeps

  constructor(deps: TransactingDeps) {
    this.#deps = deps
  }

  /** See `Settler.transact`. */
  async send(call: ContractCall, storeId: string | null): Promise<TransactOutcome> {
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
      if (receipt === undefined) return { status: 'pending', transaction }
      spentWei = costOf(receipt, 1, attempt.bytes, options) ?? likelyWei
      return { status: receipt.status === '0x1' ? 'done' : 'reverted', transaction }
    } finally {
      if (storeId !== null) budgets.countGas(storeId, likelyWei, spentWei)
    }
  }
}
