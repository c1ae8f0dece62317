import type { Refusal } from '../../../../core/ports/chains/settler.ts'
import { keyIsShared, noPlaceRefusals } from '../../refuse.ts'
import type { EvmSettlerOptions } from '../options.ts'
import type { Head } from '../rpc/head.ts'
import { type Fees, feesFor, leastFee } from './fees.ts'
import type { SettlingAccount } from './settlingAccount.ts'

/** Transactions of one account that nodes keep in their pools; those that wait for nothing count less strictly. */
const MAX_TRANSACTIONS = 256
/** Every payment is refused meanwhile; the log is told so often only. */
const TELL_AGAIN_MS = 10_000

/** Whether the settling key can pay for one more settlement, and with which fees; why not otherwise. */
export type Affordable =
  | {
      readonly ok: true
      readonly fees: Fees
      /** What a unit of gas costs at most while the base fee does no more than double. */
      readonly gasPriceWei: bigint
    }
  | Refusal

/**
 * Whether the account has the means for so many transactions more.
 *
 * @param gas that each of them may use; as much as a single settlement may where it is left out
 */
export type JudgeMeans = (head: Head, waiting: number, gas?: number) => Affordable

/** What the account of one key can pay for. */
export interface Means {
  readonly judge: JudgeMeans
  /** How many single settlements more it has the means for now; 0 while nothing can be signed with it. */
  backs(head: Head): bigint
}

/** Makes the judge of a settling account's means: called before the seller works, and again before anything is signed. */
export function createAffordable(
  options: Required<EvmSettlerOptions>,
  account: Pick<SettlingAccount, 'address' | 'committedWei' | 'inFlight' | 'isShared'>,
): Means {
  const { network, log, maxGas } = options
  let toldAtMs = Number.NEGATIVE_INFINITY
  const stopped = (why: string): Refusal => {
    if (performance.now() - toldAtMs > TELL_AGAIN_MS) {
      toldAtMs = performance.now()
      log.error({ network }, `settlement stopped: ${why}`)
    }
    return noPlaceRefusals.means
  }
  const judge: JudgeMeans = (head, waiting, gas = maxGas) => {
    if (account.isShared) return keyIsShared
    if (account.inFlight >= MAX_TRANSACTIONS) return noPlaceRefusals.in_flight
    const spareWei = head.balance - account.committedWei
    const fees = feesFor(head, options, spareWei, gas)
    if (fees === undefined)
      return stopped(`the network asks ${head.baseFee} wei a unit of gas, above the cap`)
    const gasPriceWei = leastFee(head, options)
    const needed = BigInt(gas) * gasPriceWei * BigInt(waiting)
    if (spareWei >= needed) return { ok: true, fees, gasPriceWei }
    return stopped(
      `the settling account ${account.address} has ${spareWei} wei for fees, ${needed} are needed`,
    )
  }
  return {
    judge,
    backs(head) {
      if (account.isShared || account.inFlight >= MAX_TRANSACTIONS) return 0n
      const spareWei = head.balance - account.committedWei
      if (spareWei <= 0n || feesFor(head, options, spareWei, maxGas) === undefined) return 0n
      return spareWei / (BigInt(maxGas) * leastFee(head, options))
    },
  }
}
