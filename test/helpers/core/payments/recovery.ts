import { builtInAssets } from '../../../../core/domain/asset.ts'
import type { NetworkId } from '../../../../core/domain/network.ts'
import type { PaymentRecord, PaymentState } from '../../../../core/domain/payment.ts'
import { createRecovery, type RecoveryOptions } from '../../../../core/payments/recovery.ts'
import * as rules from '../../../../core/payments/rules.ts'
import type { RefundVerdict, TransferBack } from '../../../../core/ports/chains/refundProofs.ts'
import type { OnChain, SettleOutcome, Settler } from '../../../../core/ports/chains/settler.ts'
import { silentLog as log } from '../../../../core/ports/log.ts'
import type { Lease } from '../../../../core/ports/store/leases.ts'
import type { Ledger } from '../../../../core/ports/store/ledger.ts'
import { openTestStore } from '../../store/testStore.ts'

const network: NetworkId = 'eip155:84532'
const asset = builtInAssets.find((one) => one.network === network)!
/** What a seller said, kept with its payment. */
export const response = { status: 200, headers: [], body: Buffer.from('{}') }
/** What was signed as the nth settlement. */
export const attemptOf = (n: number) => ({
  ...{ settler: 'fake', bytes: '0x02', transaction: `0x${n}`, sequence: String(n) },
})
/** The chain has what was sent, whole. */
export const settledIn = ({ attempt, nonce, amountAtomic }: PaymentRecord): SettleOutcome => ({
  ...{ status: 'settled', transaction: attempt!.transaction, event: nonce, block: 1 },
  chargedAtomic: amountAtomic,
})
/** The outcome is still unknown. */
export const pending: SettleOutcome = { status: 'pending', transaction: '0x', reason: 'settlement_pending' }

/** A store on a clock of the test's own, a chain of which it says what is there, and processes that die. */
export function stage() {
  let nowMs = 1_000_000
  const clock = { now: () => nowMs }
  const store = openTestStore({ clock, storeClock: clock })
  const { ledger, leases } = store
  const underWay = new Set<number>()
  const requests: number[] = []
  let outcomeOf: (record: PaymentRecord) => SettleOutcome = () => pending
  let onChain: (record: PaymentRecord) => OnChain = () => 'yes'
  const settler = {
    ...{ id: 'fake', network, scheme: 'exact' },
    async recover(records: readonly PaymentRecord[]) {
      requests.push(records.length)
      return records.map((record) => outcomeOf(record))
    },
    async stillOnChain(records: readonly PaymentRecord[]) {
      requests.push(records.length)
      return records.map((record) => onChain(record))
    },
  } as unknown as Settler
  const refund: { verdict: RefundVerdict | ((nowMs: number, transfer: TransferBack) => RefundVerdict) } = {
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
      recovery: (over: Partial<Ledger> = {}, options: Partial<RecoveryOptions> = {}) =>
        createRecovery(
          {
            ...{ ledger: { ...ledger, ...over }, leases, chains, clock, log, lease },
            payments: {
              isUnderWay: (row: number) => underWay.has(row),
              withhold: (row: number) => (underWay.has(row) ? undefined : () => {}),
            },
            purchases: store.purchases,
            sessions: store.sessions,
            refundProofs: {
              prove: async (transfer: TransferBack) =>
                typeof refund.verdict === 'function' ? refund.verdict(nowMs, transfer) : refund.verdict,
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
    const claimed = await ledger.claim({
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
    const apply = async (change: Parameters<Ledger['apply']>[0]) => {
      if (!(await ledger.apply(change))) throw new Error(`could not make it ${change.to}`)
    }
    if (state === 'claimed') return keyOf(n)
    await apply(rules.begin(held, attemptOf(n), isKept ? response : null))
    if (state === 'settling') return keyOf(n)
    if (state === 'pending') await apply(rules.pend(held, 'settlement_pending'))
    if (state === 'failed_final') await apply(rules.giveUp({ ...held, state: 'settling' }, 'expired'))
    if (state === 'settled' || state === 'delivered') {
      const sold = (await ledger.find(keyOf(n)))!
      const landed = { transaction: `0x${n}`, event: '0', block: 1, chargedAtomic: 10_000n }
      const sale = { payment: sold, landed, asset, reviewTokenHash: 'hash', atMs: nowMs }
      await apply(rules.sell(held, sale, attemptOf(n), false))
    }
    if (state === 'delivered') await apply(rules.deliver(held))
    return keyOf(n)
  }
  return {
    store,
    ledger,
    leases,
    chains,
    process,
    payment,
    underWay,
    requests,
    refund,
    settle: (how: typeof outcomeOf) => void (outcomeOf = how),
    see: (how: typeof onChain) => void (onChain = how),
    step: (ms: number) => void (nowMs += ms),
    find: async (key: string) => (await ledger.find(key))!,
    stateOf: async (key: string) => (await ledger.find(key))?.state,
    summary: async () => {
      const found = await store.purchases.ledgerCheck()
      return { purchases: found.purchases, broken: found.broken, unbalanced: found.unbalanced }
    },
  }
}
