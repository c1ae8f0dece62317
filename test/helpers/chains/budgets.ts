import type { BudgetsOptions } from '../../../adapters/chains/budgets.ts'
import type { PaymentIdentity } from '../../../core/domain/payment.ts'
import type { SettleOutcome } from '../../../core/ports/chains/settler.ts'
import type { GasBook, GasOfStore } from '../../../core/ports/store/gasBook.ts'

export const network = 'eip155:84532'
export const limits: Pick<
  BudgetsOptions,
  'maxInFlight' | 'maxInFlightPerPayer' | 'failureBudget' | 'maxGasPerStoreAndDay'
> = {
  maxInFlight: 12,
  maxInFlightPerPayer: 5,
  failureBudget: { failures: 4, windowMs: 1_000 },
  maxGasPerStoreAndDay: 1_000n,
}

let count = 0
/** Of a payment with a key of its own. */
export const identityOf = (payer: string, amountAtomic = 1n, validBeforeMs = 1e15): PaymentIdentity => ({
  key: `key-${++count}`,
  network,
  asset: 'usdc',
  payer,
  nonce: `${count}`,
  payTo: 'seller',
  amountAtomic,
  validBeforeMs,
})

export const outcomes = {
  settled: { status: 'settled', transaction: '0x', event: '0', block: 1, chargedAtomic: 1n },
  rejected: { status: 'rejected', reason: 'x', message: '' },
  pending: { status: 'pending', reason: 'x', transaction: '0x' },
  failed_final: { status: 'failed_final', reason: 'x', message: '', transaction: '0x' },
} as const satisfies Record<string, SettleOutcome>

/** A book in memory. */
export function memoryBook(): GasBook & { rows: Map<string, GasOfStore> } {
  const rows = new Map<string, GasOfStore>()
  return {
    rows,
    read: async (_network, fromDay) => [...rows.values()].filter(({ day }) => day >= fromDay),
    async add(_network, { storeId, day, spent }) {
      const row = rows.get(storeId)
      const sum = row?.day === day ? row.spent + spent : spent
      rows.set(storeId, { storeId, day, spent: sum })
      return sum
    },
  }
}
