import type { ChannelId, ChannelOnChain } from '../../../core/domain/channel.ts'
import type { Chain } from '../chain.ts'
import type { Scheduler } from '../scheduler.ts'
import type { Situation } from '../world.ts'

/** One call of the contract. Amounts are in the smallest unit. */
export type ContractCall =
  | {
      readonly type: 'deposit'
      readonly id: ChannelId
      readonly amount: bigint
      /** The authorization, which can be used once. */
      readonly authorization: string
      readonly validBeforeMs: number
    }
  | {
      readonly type: 'claim'
      readonly id: ChannelId
      /** The voucher's total, and what is claimed of it. */
      readonly signed: bigint
      readonly total: bigint
      readonly isSigned: boolean
    }
  | { readonly type: 'refund'; readonly id: ChannelId; readonly amount: bigint; readonly nonce: bigint }
  | { readonly type: 'withdraw'; readonly id: ChannelId; readonly amount: bigint }
  | { readonly type: 'finalize'; readonly id: ChannelId; readonly delaySeconds: number }

/** A transaction. If one of its calls reverts, all do. */
export interface ContractTransaction {
  readonly hash: string
  readonly calls: readonly ContractCall[]
}

/** The contract after a block. */
export interface ContractView {
  readonly block: number
  readonly channels: ReadonlyMap<ChannelId, ChannelOnChain>
  readonly used: ReadonlySet<string>
  /** Whether each mined transaction has succeeded. */
  readonly outcomes: ReadonlyMap<string, boolean>
}

const nothing: ChannelOnChain = {
  balance: 0n,
  totalClaimed: 0n,
  pendingWithdrawal: 0n,
  withdrawRequestedAtSeconds: 0,
  refundNonce: 0n,
}

const genesis: ContractView = { block: 0, channels: new Map(), used: new Set(), outcomes: new Map() }

export const smaller = (a: bigint, b: bigint): bigint => (a < b ? a : b)

export const stateOf = ({ channels }: ContractView, id: ChannelId): ChannelOnChain =>
  channels.get(id) ?? nothing

/**
 * The contract of payment channels, by the rules of `BatchSettlement.sol`, on a chain with a block every two seconds that loses its
 * latest blocks now and then. A transaction waits until it is mined.
 */
export class ChannelContract {
  /** While false, each transaction is mined with the next block. */
  isFaulty = true
  /** Deposits that were on chain, and whose transactions were dropped with their blocks. */
  hasLostDeposit = false
  /** Channels whose payer has finished a withdrawal. */
  readonly withdrawn = new Set<ChannelId>()
  readonly #scheduler: Scheduler
  readonly #chain: Chain
  readonly #see: (situation: Situation) => void
  #mined: { readonly transaction: ContractTransaction; readonly block: number }[] = []
  #views: ContractView[] = [genesis]
  readonly #waiting = new Map<string, ContractTransaction>()
  #isMining = false
  #sent = 0

  /** @param chain whose blocks it has */
  constructor(scheduler: Scheduler, chain: Chain, see: (situation: Situation) => void) {
    this.#scheduler = scheduler
    this.#chain = chain
    this.#see = see
  }

  /** @param lag so many blocks behind */
  view(lag = 0): ContractView {
    const number = this.#chain.head - lag
    return this.#views.findLast(({ block }) => block <= number) ?? genesis
  }

  /** @returns whether all calls succeed in the newest block */
  simulate(calls: readonly ContractCall[], view: ContractView): boolean {
    return this.#run(view, { hash: '', calls }, this.#chain.head).outcomes.get('')!
  }

  /** @returns the hash */
  send(calls: readonly ContractCall[]): string {
    const hash = `0x${'c'.repeat(8)}${(this.#scheduler.seed * 1_000 + this.#sent++).toString(16).padStart(56, '0')}`
    this.#waiting.set(hash, { hash, calls })
    this.#mineSoon()
    return hash
  }

  /** The latest blocks leave the chain. Most of their transactions are mined again, in any order. */
  reorganise(blocks: number): void {
    const from = this.#chain.head - blocks
    const gone = this.#mined.filter(({ block }) => block > from)
    if (gone.length === 0) return
    this.#mined = this.#mined.filter(({ block }) => block <= from)
    this.#views = this.#views.filter(({ block }) => block <= from)
    for (const { transaction } of gone) {
      const { calls } = transaction
      if (calls.some(({ type }) => type === 'deposit')) this.#see('a deposit leaves the chain')
      if (calls.some(({ type }) => type === 'claim')) this.#see('a claim leaves the chain')
      if (this.#scheduler.chance(0.6)) this.#waiting.set(transaction.hash, transaction)
      else if (calls.some(({ type }) => type === 'deposit')) this.hasLostDeposit = true
    }
    this.#mineSoon()
  }

  #mineSoon(): void {
    if (this.#isMining || this.#waiting.size === 0) return
    this.#isMining = true
    this.#scheduler.at(this.#chain.msToNextBlock, null, () => {
      this.#isMining = false
      this.#mine()
      this.#mineSoon()
    })
  }

  #mine(): void {
    const scheduler = this.#scheduler
    const ready = [...this.#waiting.values()].filter(() => !this.isFaulty || scheduler.chance(0.8))
    if (scheduler.chance(0.3)) ready.reverse()
    const block = this.#chain.head
    for (const transaction of ready) {
      this.#waiting.delete(transaction.hash)
      this.#mined.push({ transaction, block })
      const view = this.#run(this.#views.at(-1)!, transaction, block)
      this.#views.push(view)
      if (view.outcomes.get(transaction.hash)) this.#note(transaction, view)
    }
  }
  #note({ calls }: ContractTransaction, view: ContractView): void {
    for (const { type, id } of calls) {
      if (type === 'claim' && stateOf(view, id).pendingWithdrawal > 0n)
        this.#see('a claim races a withdrawal')
      if (type !== 'finalize') continue
      this.#see('a payer withdraws')
      this.withdrawn.add(id)
    }
  }

  /** What a transaction makes of a view. */
  #run(view: ContractView, { hash, calls }: ContractTransaction, block: number): ContractView {
    const channels = new Map(view.channels)
    const used = new Set(view.used)
    const seconds = Math.floor(this.#chain.timestampOf(block) / 1_000)
    const isDone = calls.every((call) => {
      const before = channels.get(call.id) ?? nothing
      const after =
        call.type === 'deposit' ? deposited(before, call, used, seconds) : called(before, call, seconds)
      if (after !== undefined) channels.set(call.id, after)
      return after !== undefined
    })
    const outcomes = new Map(view.outcomes).set(hash, isDone)
    return isDone ? { block, channels, used, outcomes } : { ...view, block, outcomes }
  }
}

function deposited(
  channel: ChannelOnChain,
  { amount, authorization, validBeforeMs }: ContractCall & { type: 'deposit' },
  used: Set<string>,
  seconds: number,
): ChannelOnChain | undefined {
  if (used.has(authorization) || seconds * 1_000 >= validBeforeMs) return undefined
  used.add(authorization)
  return { ...channel, balance: channel.balance + amount }
}

/** @returns undefined if the call reverts */
function called(
  channel: ChannelOnChain,
  call: Exclude<ContractCall, { type: 'deposit' }>,
  seconds: number,
): ChannelOnChain | undefined {
  const { balance, totalClaimed, pendingWithdrawal, withdrawRequestedAtSeconds, refundNonce } = channel
  const available = balance - totalClaimed
  switch (call.type) {
    case 'claim':
      // A claim of what is claimed already changes nothing, so its signature is not checked either.
      if (call.total <= totalClaimed) return channel
      if (call.total > call.signed || call.total > balance || !call.isSigned) return undefined
      return { ...channel, totalClaimed: call.total }
    case 'refund': {
      if (call.nonce !== refundNonce) return undefined
      const left = balance - smaller(call.amount, available)
      const pending = smaller(pendingWithdrawal, left - totalClaimed)
      return { ...channel, balance: left, pendingWithdrawal: pending, refundNonce: refundNonce + 1n }
    }
    case 'withdraw':
      if (call.amount === 0n || call.amount > available) return undefined
      return { ...channel, pendingWithdrawal: call.amount, withdrawRequestedAtSeconds: seconds }
    case 'finalize':
      if (pendingWithdrawal === 0n || seconds < withdrawRequestedAtSeconds + call.delaySeconds)
        return undefined
      return {
        ...channel,
        balance: balance - smaller(pendingWithdrawal, available),
        pendingWithdrawal: 0n,
        withdrawRequestedAtSeconds: 0,
      }
  }
}
