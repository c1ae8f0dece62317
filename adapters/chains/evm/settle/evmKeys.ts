import type { EvmCall } from '../../../../core/evm/token.ts'
import type { Refusal } from '../../../../core/ports/chains/settler.ts'
import { notStarted } from '../../refuse.ts'
import type { Head } from '../rpc/head.ts'
import type { Affordable } from './affordable.ts'
import { type EvmKey, troublesOf } from './evmKey.ts'
import type { Sent } from './landing.ts'
import type { Store } from './settlingAccount.ts'

/** What a transaction of one of the keys may cost, whose it would be now, and how many all of them together can pay for. */
export type Backed =
  | (Extract<Affordable, { readonly ok: true }> & { readonly from: string; readonly payments: number })
  | Refusal

/** A transaction that is on its way, or whose stores have not all said yes. */
export interface Sending {
  readonly ok: true
  /** Undefined where it is not sent. */
  readonly sent: Sent | undefined
  readonly isStored: readonly boolean[]
}

/**
 * The keys of one settler. Transactions are spread over those that this process has, the one with the least on its way
 * first. One that is stuck comes last, and one that can't sign or pay is passed over. What one has signed stays its own: its
 * bytes are sent again, and no other key ever signs for the same payment while they can land.
 */
export interface EvmKeys {
  readonly all: readonly EvmKey[]
  /** Whether this process may sign with any. */
  readonly isStarted: boolean
  /**
   * Whether the keys together have the means for so many settlements more. Rejects when no node says.
   *
   * @returns what one of them signs for
   */
  judge(waiting: number): Promise<Backed>
  /** What keeps keys from settling, in words for the operator. */
  troubles(): string[]
  /** Looks whether somebody else signs with one of the keys. Never rejects. */
  lookForOthers(): Promise<unknown>
  /**
   * Chooses a key, signs, stores and sends; see {@link SettlingAccount.sign}. Rejects when no node says how the chain stands.
   *
   * @param gas that the transaction may use
   */
  send(call: EvmCall, gas: number, stores: readonly Store[]): Promise<Sending | Refusal>
}

export function createEvmKeys(all: readonly EvmKey[]): EvmKeys {
  let turn = 0

  /** Those that may sign, the best first; of equal ones each in its turn. */
  const inOrder = (): EvmKey[] => {
    if (all.length === 1) return all[0]!.isStarted ? [...all] : []
    turn = (turn + 1) % all.length
    return [...all.slice(turn), ...all.slice(0, turn)]
      .filter((key) => key.isStarted)
      .map((key) => ({ key, isStuck: key.isStuck, load: key.chosen + key.account.paymentsInFlight }))
      .sort((a, b) => Number(a.isStuck) - Number(b.isStuck) || a.load - b.load)
      .map(({ key }) => key)
  }

  const headOf = async ({ heads }: EvmKey): Promise<Head> => heads.lately() ?? (await heads.current())

  return {
    all,
    get isStarted() {
      return all.some((key) => key.isStarted)
    },
    async judge(waiting) {
      const started = inOrder()
      const heads = await Promise.all(started.map(headOf))
      const backing = started.map(({ means }, i) => means.backs(heads[i]!))
      let best = 0
      for (const [i, payments] of backing.entries()) if (payments > backing[best]!) best = i
      const key = started[best]
      if (key === undefined) return notStarted
      const ofOthers = backing.reduce((sum, payments, i) => (i === best ? sum : sum + payments), 0n)
      const left = BigInt(waiting) - ofOthers
      const judged = key.means.judge(heads[best]!, left < 1n ? 1 : Number(left))
      if (!judged.ok) return judged
      return { ...judged, from: key.account.address, payments: Number(ofOthers + backing[best]!) }
    },
    troubles() {
      const isStarted = all.some((key) => key.isStarted)
      return all.flatMap((key) => [
        ...troublesOf(key),
        ...(isStarted && !key.isStarted ? [notTaken(key.account.address)] : []),
      ])
    },
    lookForOthers: () => Promise.all(all.map((key) => key.isStarted && key.account.lookForOthers())),
    async send(call, gas, stores) {
      let refusal: Refusal = notStarted
      for (const key of inOrder()) {
        const { account, heads, means, land } = key
        const payments = stores.length
        key.chosen += payments
        try {
          await account.lookForOthers()
          const affords = means.judge(await heads.current(), 1, gas)
          if (!affords.ok) {
            refusal = affords
            continue
          }
          if (!key.isStarted) continue
          const { attempt, isStored } = await account.sign(call, gas, affords.fees, stores)
          const sent = attempt && { attempt, payments, receipt: land(attempt) }
          return { ok: true, sent, isStored }
        } finally {
          key.chosen -= payments
        }
      }
      return refusal
    },
  }
}

const notTaken = (address: string): string =>
  `The settling key ${address} is passed over: another process has it, or no node has answered since it could be taken.`
