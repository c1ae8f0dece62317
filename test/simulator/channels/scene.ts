import type { ChannelConfig, ChannelId } from '../../../core/domain/channel.ts'
import type { Exchange } from '../../../core/plugin/exchange.ts'
import type { ChannelCharge } from '../../../core/ports/store/channels.ts'
import type { MemoryTransport } from '../../helpers/memoryTransport.ts'
import type { GatewayProcess } from '../gatewayProcess.ts'
import type { World } from '../world.ts'
import type { ChannelRead } from './channelChain.ts'
import { ChannelContract } from './contract.ts'

/** In one seed of so many, buyers pay by channels. Gateways share no settling key in these, and no price is by use. */
export const CHANNELS_EVERY = 5
export const FIRST_CHANNELS_SEED = 4
export const hasChannels = (seed: number): boolean => seed % CHANNELS_EVERY === FIRST_CHANNELS_SEED

/** What a payer sends: a voucher over a total, with a deposit or for a refund. */
export interface ChannelPayment {
  readonly type: 'voucher' | 'deposit' | 'refund'
  readonly total: bigint
  readonly header: string
}

/** A buyer with a channel, and what its client believes of it. Amounts are in the smallest unit. */
export interface Payer {
  readonly name: string
  readonly id: ChannelId
  readonly config: ChannelConfig
  /** The total that was charged, and the balance, as the client last heard. */
  charged: bigint
  balance: bigint
  /** Every total that it has signed. */
  readonly signed: Set<bigint>
  /** The call that its client makes now. */
  current: { readonly payment: ChannelPayment; readonly path: string } | undefined
  /** How many times the usual deposit its next one is: more once a refund that may still land would take the usual one. */
  depositFactor: bigint
  /** How many calls it has made, and deposits. */
  calls: number
  deposits: number
}

/** One request of a payer. */
export interface ChannelRequest {
  readonly payer: Payer
  readonly payment: ChannelPayment
  readonly path: string
  readonly transport: MemoryTransport
  readonly x: Exchange
  readonly process: GatewayProcess
  readonly startedAtMs: number
  /** Its connection is gone with its process. */
  lose(): void
}

/** A charge that the database has committed. */
export interface CommittedCharge extends ChannelCharge {
  readonly by: GatewayProcess
  readonly atMs: number
}

/** A process has become the owner of a channel's row. */
export interface TakenChannel {
  readonly id: ChannelId
  readonly by: GatewayProcess
  readonly atMs: number
}

/** What a process sends as a claim. */
export interface SentClaim {
  readonly id: ChannelId
  readonly total: bigint
  readonly atMs: number
}

/** The channels of one seed, and what was seen of them. */
export class ChannelScene {
  readonly contract: ChannelContract
  readonly payers: Payer[] = []
  readonly requests: ChannelRequest[] = []
  readonly charges: CommittedCharge[] = []
  readonly reads: ChannelRead[] = []
  readonly taken: TakenChannel[] = []
  readonly claims: SentClaim[] = []
  /** Time between a payer's request to withdraw and the withdrawal. Below the contract's minimum, as these seeds are short. */
  readonly withdrawDelaySeconds: number

  constructor(world: Pick<World, 'scheduler' | 'chain' | 'seen'>) {
    const { scheduler, chain, seen } = world
    this.withdrawDelaySeconds = scheduler.pick([15, 60])
    this.contract = new ChannelContract(scheduler, chain, (situation) => void seen.add(situation))
  }

  /** What was charged to a channel, as the database has committed it. */
  chargedOf(id: ChannelId): bigint {
    const last = this.charges.findLast((charge) => charge.id === id)
    return last === undefined ? 0n : last.before + last.amountAtomic
  }
}
