import type { OwnKey } from '../../../../core/ports/chains/settler.ts'
import type { Rpc } from '../../../../core/rpc/rpc.ts'
import type { EvmSettlerOptions } from '../options.ts'
import { createHeadCache, type HeadCache } from '../rpc/head.ts'
import { createAffordable, type Means } from './affordable.ts'
import { feesFor, paymentsAhead } from './fees.ts'
import { createLanding, type Land } from './landing.ts'
import type { ReceiptWatch } from './receipts.ts'
import { createSettlingAccount, type SettlingAccount } from './settlingAccount.ts'
import type { SyncSend } from './syncSend.ts'

/** A transaction that has waited for so long, or as often the usual time if that is longer, shows that its key is stuck. */
const MIN_STUCK_MS = 10_000
const STUCK_USUAL_TIMES = 5

/** One key that settles: its account, what it can pay for, and the way of its transactions to the chain. */
export interface EvmKey extends Required<OwnKey> {
  readonly account: SettlingAccount
  /** The chain, with this account's balance. */
  readonly heads: HeadCache
  readonly means: Means
  readonly land: Land
  /** Whether this process may sign with it, and has taken up what others have signed. */
  readonly isStarted: boolean
  /** Its transactions wait for their blocks for much longer than usual: those that come after them would wait as well. */
  readonly isStuck: boolean
  /** Payments for which it was chosen and that are not signed yet. */
  chosen: number
}

export interface EvmKeyParts {
  readonly options: Required<EvmSettlerOptions>
  readonly privateKey: string
  readonly rpc: Rpc
  readonly receipts: ReceiptWatch
  readonly syncSend: SyncSend
  /** Takes up what concerns all keys, before the first of them signs. */
  readonly prepare: () => Promise<unknown>
}

export function createEvmKey(parts: EvmKeyParts): EvmKey {
  const { options, privateKey, rpc, receipts, syncSend, prepare } = parts
  const { network, clock, log, maxGas } = options
  const account = createSettlingAccount({
    ...{ network, privateKey, rpc, maxGas, log },
    storeTimeoutMs: options.storeTimeoutMs,
    strandedMs: options.strandedMs,
    sharedKeyMs: options.sharedKeyMs,
    maxFeePerGasWei: options.maxFeePerGasWei,
    async currentFees() {
      const head = await heads.fresh()
      return feesFor(head, options, head.balance - account.committedWei, maxGas)
    },
  })
  const heads = createHeadCache(rpc, account.address, clock, options.headMaxAgeMs)
  const means = createAffordable(options, account)
  const land = createLanding({ options, rpc, account, receipts, syncSend })
  let isStarted = () => !options.needsStart

  // What waits here when another process has taken the key is that one's to land.
  const isStuck = () =>
    isStarted() && account.oldestMs > Math.max(MIN_STUCK_MS, STUCK_USUAL_TIMES * (receipts.usualMs ?? 0))

  return {
    ...{ id: account.id, account, heads, means, land, chosen: 0 },
    get isStarted() {
      return isStarted()
    },
    get isStuck() {
      return isStuck()
    },
    async start(open, mayGoOn = () => true, bookedNumbers) {
      // Where it comes back: nothing is signed before it is known what others have signed meanwhile.
      isStarted = () => false
      account.recheck()
      await Promise.all([account.adopt(open, mayGoOn, bookedNumbers), prepare()])
      await account.lookForOthers()
      isStarted = mayGoOn
    },
    followUp: account.followUp,
    async look() {
      const [head, nonce] = await Promise.all([heads.fresh(), account.nonces()])
      return {
        ...{ address: account.address, balance: head.balance, nonce },
        paymentsLeft: paymentsAhead(head, options),
        inFlight: account.inFlight,
        ...(isStuck() && { trouble: { kind: 'stuck', words: stuckWords(account) } }),
        ...(account.isShared && { trouble: { kind: 'shared', words: sharedWords(account.address) } }),
      }
    },
  }
}

/** What keeps a key from settling, in words for the operator. */
export const troublesOf = ({ account, isStuck }: EvmKey): string[] => [
  ...(account.isShared ? [sharedWords(account.address)] : []),
  ...(isStuck ? [stuckWords(account)] : []),
]

const sharedWords = (address: string): string =>
  `Somebody else signs with the settling key ${address}, such as another installation; nothing is settled with it until that is over. Give each installation a key of its own.`

const stuckWords = ({ address, oldestMs }: SettlingAccount): string =>
  `A transaction of the settling key ${address} has waited for its block for ${Math.round(oldestMs / 1_000)} s; other keys are taken first while there are any.`
