import type { PurchaseView } from './purchaseView.ts'

const columns = [
  'id',
  'createdAt',
  'linkId',
  'status',
  'amount',
  'fee',
  'currency',
  'price',
  'chain',
  'network',
  'asset',
  'buyerWallet',
  'txHash',
] as const satisfies readonly (keyof PurchaseView)[]

/** Purchases as RFC 4180 text, with a header line. Cells that a spreadsheet would run as a formula are quoted off. */
export function toCsv(purchases: readonly PurchaseView[]): string {
  const lines = [columns.join(','), ...purchases.map((row) => columns.map((c) => cell(row[c])).join(','))]
  return `${lines.join('\r\n')}\r\n`
}

function cell(value: string | null): string {
  const text = value ?? ''
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}
