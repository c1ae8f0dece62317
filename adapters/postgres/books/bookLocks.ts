import type { PaymentKey, SettlementAttempt } from '../../../core/domain/payment.ts'
import { canonicalTransaction } from '../../sql/sales/paymentRows.ts'

// Numbers of the database's function `books_lock`: so few that a group holds no more, so many that a refund keeps few waiting.
// Every version of this program that uses one database has to find the same.
const KEYS = 16
const TRANSACTIONS = 16

/** Stands for the payments of this key and others, whether they are there or not. */
export const lockOfKey = (key: PaymentKey): number => Number.parseInt(key.slice(0, 1), 16) % KEYS

/** Stands for what a transaction has paid, there or back. */
export const lockOfTransaction = (network: string, transaction: string): number =>
  KEYS + (sumOf(`${network} ${canonicalTransaction(network, transaction)}`) % TRANSACTIONS)

/** Stands for the transactions of a key with this account number: whoever signs one has it alone, and nobody else waits for it. */
export const lockOfNumber = ({ settler, sequence }: SettlementAttempt): number =>
  1_000 + sumOf(`${settler} ${sequence}`)

function sumOf(text: string): number {
  let sum = 0
  for (let i = 0; i < text.length; i++) sum = (sum * 31 + text.charCodeAt(i)) % 2_147_480_000
  return sum
}
