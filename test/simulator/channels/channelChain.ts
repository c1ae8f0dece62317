import { hash } from 'node:crypto'
import { type Channel, type ChannelConfig, type ChannelId, claimable } from '../../../core/domain/channel.ts'
import type { ChannelChain } from '../../../core/ports/chains/channelChain.ts'
import type { TransactOutcome } from '../../../core/ports/chains/settler.ts'
import type { Erc3009Deposit } from '../../../core/x402/channelPayment.ts'
import { testNetwork } from '../../helpers/settler.ts'
import type { Owner, Scheduler } from '../scheduler.ts'
import { type ChannelContract, type ContractCall, stateOf } from './contract.ts'

/** How long a transaction's block is waited for, in ms. */
const BLOCK_TIMEOUT_MS = 20_000

/** The account that every gateway of a seed names in its offers. */
export const authorizer = `0x${'a7'.repeat(20)}`

export const channelIdOf = (config: ChannelConfig): ChannelId =>
  `0x${hash('sha256', Object.values(config).join(), 'hex')}`

/** A voucher's signature: what stands for one is a hash that its authorizer alone is asked for. */
export const signatureOf = (account: string, id: ChannelId, maxClaimable: bigint): string =>
  `0x${hash('sha256', `${account} ${id} ${maxClaimable}`, 'hex')}${'1'.repeat(64)}1b`

/** What a process has read of a channel in the contract. */
export interface ChannelRead {
  readonly by: Owner
  readonly id: ChannelId
  /** The highest total that can be sold on it, in the smallest unit. */
  readonly maxTotal: bigint
  readonly sinceMs: number
  readonly endedAtMs: number
}

export interface ChannelChainDeps {
  readonly contract: ChannelContract
  readonly scheduler: Scheduler
  readonly reads: ChannelRead[]
  fails(probability: number): boolean
  /** A transaction goes to the chain now. */
  onSending(calls: readonly ContractCall[]): void
}

/** One process's way to the contract: nodes that do not answer now and then, or tell of some blocks ago. */
export function createSimulatedChannelChain(deps: ChannelChainDeps): ChannelChain {
  const { contract, scheduler, reads, fails, onSending } = deps

  async function ask<T>(what: () => T): Promise<T> {
    await scheduler.wait(scheduler.between(10, 40))
    if (fails(0.04)) throw new Error('the node did not answer')
    const response = what()
    await scheduler.wait(scheduler.between(10, 40))
    if (fails(0.03)) throw new Error('the answer was lost')
    return response
  }

  const newest = () => contract.view(fails(0.1) ? scheduler.between(1, 3) : 0)

  async function transact(calls: readonly ContractCall[]): Promise<TransactOutcome> {
    let isRefused = true
    try {
      isRefused = await ask(() => !contract.simulate(calls, newest()))
    } catch {
      return { status: 'refused', isRevert: false, message: 'the node did not answer' }
    }
    if (isRefused) return { status: 'refused', isRevert: true, message: 'it would revert' }
    onSending(calls)
    const transaction = contract.send(calls)
    const endMs = scheduler.nowMs + BLOCK_TIMEOUT_MS
    while (scheduler.nowMs < endMs) {
      await scheduler.wait(700)
      const isDone = await ask(() => newest().outcomes.get(transaction)).catch(() => undefined)
      if (isDone !== undefined) return { status: isDone ? 'done' : 'reverted', transaction }
    }
    return { status: 'pending', transaction }
  }

  const claimOf = (channel: Channel): ContractCall => {
    const { id, signed, signature, config } = channel
    const isSigned = signature === signatureOf(config.payerAuthorizer, id, signed)
    return { type: 'claim', id, signed, total: claimable(channel), isSigned }
  }

  return {
    network: testNetwork,
    authorizer,
    signsFor: (account) => account === authorizer,
    channelId: channelIdOf,
    isSigned: (account, id, maxClaimable, signature) => signature === signatureOf(account, id, maxClaimable),

    async read(ids) {
      const sinceMs = scheduler.nowMs
      const view = await ask(newest)
      const by = scheduler.owner!
      for (const id of ids) {
        const { balance, pendingWithdrawal } = stateOf(view, id)
        reads.push({ by, id, maxTotal: balance - pendingWithdrawal, sinceMs, endedAtMs: scheduler.nowMs })
      }
      return ids.map((id) => stateOf(view, id))
    },

    // A claim of the simulated contract pays out at once.
    unsettled: async (payees) => payees.map(() => 0n),

    deposit(config, deposit) {
      // The simulated asset has ERC-3009.
      const { amount, salt, validBefore } = deposit as Erc3009Deposit
      return transact([
        {
          type: 'deposit',
          id: channelIdOf(config),
          amount,
          authorization: `${channelIdOf(config)} ${salt}`,
          validBeforeMs: 1_000 * Number(validBefore),
        },
      ])
    },

    claim: (channels) => transact(channels.map(claimOf)),

    refund({ channel, amount }) {
      const { id, charged, totalClaimed, refundNonce: nonce } = channel
      const claims = charged > totalClaimed ? [claimOf(channel)] : []
      return transact([...claims, { type: 'refund', id, amount, nonce }])
    },
  }
}
