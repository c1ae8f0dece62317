import { createMemory, type Memory } from '../../adapters/memory/store/memory.ts'
import { openMemory } from '../../adapters/memory/store/openMemory.ts'
import { builtInAssets } from '../domain/asset.ts'
import type { NetworkId } from '../domain/network.ts'
import type { PaymentRecord, PaymentState } from '../domain/payment.ts'
import type { RefundVerdict } from '../ports/chains/refundProofs.ts'
import type { OnChain, SettleOutcome, Settler } from '../ports/chains/settler.ts'
import { silentLog as log } from '../ports/log.ts'
import type { Books } from '../ports/store/books.ts'
import type { Lease } from '../ports/store/leases.ts'
import { createRecovery, type RecoveryOptions } from './recovery.ts'
import * as rules from './rules.ts'

const network: NetworkId = 'eip155:84532'
const asset = builtInAssets.find((one) => one.network === network)!
/** What a seller said, kept with its payment. */
export const answer = { status: 200, headers: [], body: Buffer.from('{}') }
/** What was signed as the nth settlement. */
export const attemptOf = (n: number) => ({
  ...{ settler: 'fake', bytes: '0x02', transaction: `0x${n}`, sequence: String(n) },
})
/** The chain has what was sent, whole. */
export const settledIn = ({ attempt, nonce, amountAtomic }: PaymentRecord): SettleOutcome => ({
  ...{ status: 'settled', transaction: attempt!.transaction, event: nonce, block: 1 },
  chargedAtomic: amountAtomic,
})
/** Nobody knows yet. */
export const pending: SettleOutcome = { status: 'pending', transaction: '0x', reason: 'settlement_pending' }

/** A store in memory on a clock of the test's own, a chain of which it says what is there, and processes that die. */
export function stage(memory?: Memory) {
  let nowMs = 1_000_000
  const clock = { now: () => nowMs }
  const shared = memory ?? createMemory(clock)
  const store = openMemory({ memory: shared, clock })
  const { books, leases } = store
  const underWay = new Set<number>()
  const asked: number[] = []
  let outcomeOf: (record: PaymentRecord) => SettleOutcome = () => pending
  let onChain: (record: PaymentRecord) => OnChain = () => 'yes'
  const settler = {
    ...{ id: 'fake', network, scheme: 'exact' },
    async recover(records: readonly PaymentRecord[]) {
      asked.push(records.length)
      return records.map((record) => outcomeOf(record))
    },
    async stillOnChain(records: readonly PaymentRecord[]) {
      asked.push(records.length)
      return records.map((record) => onChain(record))
    },
  } as unknown as Settler
  const refund: { verdict: RefundVerdict | ((nowMs: number) => RefundVerdict) } = {
    verdict: { status: 'proved', paymentKeys: [] },
  }
  const chains = {
    assets: [asset],
    settlers: [settler],
    settler: (of: string) => (of === network ? settler : undefined),
  }
  let rows = 0
  const keyOf = (n: number) => n.toString(16).padStart(64, '0')

  const process = async (name: string) => {
    const lease = { current: (await leases.take(`process:${name}`, 10_000))! }
    return {
      lease,
      recovery: (over: Partial<Books> = {}, options: Partial<RecoveryOptions> = {}) =>
        createRecovery(
          {
            ...{ books: { ...books, ...over }, leases, chains, clock, log, lease },
            payments: {
              isUnderWay: (row: number) => underWay.has(row),
              withhold: (row: number) => (underWay.has(row) ? undefined : () => {}),
            },
            purchases: store.purchases,
            sessions: store.sessions,
            refundProofs: {
              prove: async () =>
                typeof refund.verdict === 'function' ? refund.verdict(nowMs) : refund.verdict,
            },
            notes: { tokenHash: (id: string) => `hash of ${id}` },
          },
          { intervalMs: 1, ...options },
        ),
    }
  }
  /** A payment as its call has brought it so far. */
  const payment = async (
    lease: Lease,
    state: PaymentState,
    changes: { isKept?: boolean; asset?: string; network?: NetworkId } = {},
  ) => {
    const n = ++rows
    const purchaseId = `0190b2a4-0000-7000-8000-${String(n).padStart(12, '0')}`
    const { isKept = true, ...facts } = changes
    const claimed = await books.claim({
      ...{ key: keyOf(n), network, asset: asset.address, payer: '0x2', nonce: `${n}`, payTo: '0x3' },
      ...{ amountAtomic: 10_000n, validBeforeMs: 2_000_000, scheme: 'exact', lease: lease.id },
      ...{
        linkId: 'link',
        sessionId: null,
        storeId: 'store',
        requestHash: 'h',
        purchaseId,
        payload: '{}',
        ...facts,
      },
    })
    if (!claimed.won) throw new Error('the key is taken')
    const { row } = claimed
    const held = { row, purchaseId, lease: lease.id }
    const apply = async (change: Parameters<Books['apply']>[0]) => {
      if (!(await books.apply(change))) throw new Error(`could not make it ${change.to}`)
    }
    if (state === 'claimed') return keyOf(n)
    await apply(rules.begin(held, attemptOf(n), isKept ? answer : null))
    if (state === 'settling') return keyOf(n)
    if (state === 'pending') await apply(rules.pend(held, 'settlement_pending'))
    if (state === 'failed_final') await apply(rules.giveUp({ ...held, state: 'settling' }, 'expired'))
    if (state === 'settled' || state === 'delivered') {
      const sold = (await books.find(keyOf(n)))!
      const landed = { transaction: `0x${n}`, event: '0', block: 1, chargedAtomic: 10_000n }
      const sale = { payment: sold, landed, asset, reviewTokenHash: 'hash', atMs: nowMs }
      await apply(rules.sell(held, sale, attemptOf(n), false))
    }
    if (state === 'delivered') await apply(rules.deliver(held))
    return keyOf(n)
  }
  return {
    ...{ memory: shared, store, books, leases, chains, process, payment, underWay, asked, refund },
    settle: (how: typeof outcomeOf) => void (outcomeOf = how),
    see: (how: typeof onChain) => void (onChain = how),
    step: (ms: number) => void (nowMs += ms),
    find: async (key: string) => (await books.find(key))!,
    stateOf: async (key: string) => (await books.find(key))?.state,
    ledger: async () => {
      const found = await store.purchases.ledgerCheck()
      return { purchases: found.purchases, broken: found.broken, unbalanced: found.unbalanced }
    },
  }
}
