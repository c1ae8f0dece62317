import { parseAmount } from '../../../core/domain/money.ts'
import { DAY_MS, HOUR_MS } from '../../../core/ports/store/figures.ts'
import type { Row } from '../row.ts'

/** What one store, or one link of it, sold within one day or hour. Its own wallets' purchases are not in it. */
export interface SalesSum {
  readonly unit: 'day' | 'hour'
  readonly scope: string
  readonly at: number
  calls: number
  revenueE18: bigint
  refunds: number
  refundedE18: bigint
  /** Purchases by the number of their buyer. */
  readonly buyers: Map<number, number>
}

/** What a store sold in one token within one month. Its own wallets' purchases are in it. */
export interface FeeSum {
  readonly key: readonly [
    store: string,
    month: string,
    network: string,
    unit: string,
    symbol: string,
    decimals: number,
  ]
  readonly asset: string
  sales: number
  sold: bigint
  fees: bigint
  refunds: number
  refunded: bigint
  returned: bigint
  standing: bigint
}

/** How the sums of one link are named. */
export const scopeOfLink = (storeId: string, linkId: string): string => `${storeId}/${linkId}`

/** How the sums of a store are named, or of one of its links. */
export const scopeOf = (storeId: string, linkId: string | undefined): string =>
  linkId === undefined ? storeId : scopeOfLink(storeId, linkId)

/** An EVM address is the same in either case; a Solana address is base58, where case counts. */
const canonical = (row: Row, name: 'buyer_wallet' | 'asset'): string =>
  String(row['network']).startsWith('eip155:') ? String(row[name]).toLowerCase() : String(row[name])
export const walletOf = (row: Row): string => canonical(row, 'buyer_wallet')

const stands = (status: unknown): boolean => status === 'settled' || status === 'delivered'

/**
 * Adds one note: what a purchase was, and what it became, or (both null) that its refund is known.
 * @param buyerOf the number of a purchase's buyer; undefined of a purchase by one of the store's own wallets
 */
export function addFigures<Sold extends Row>(
  sums: Map<string, SalesSum>,
  row: Sold,
  buyerOf: ((row: Sold) => number) | undefined,
): void {
  if (buyerOf === undefined) return
  const { was, became, store_id: storeId, link_id: linkId } = row
  const isRefund = became === null
  const sign = Number(stands(became)) - Number(stands(was))
  if (sign === 0 && !isRefund) return
  const atMs = Number(isRefund ? row['refunded_at_ms'] : row['created_at_ms'])
  const priceE18 = parseAmount(String(row['price_usd']), 18)
  const buyer = isRefund ? 0 : buyerOf(row)
  const add = (unit: SalesSum['unit'], scope: string, at: number) => {
    const key = `${unit} ${at} ${scope}`
    let sum = sums.get(key)
    if (sum === undefined) {
      sum = { unit, scope, at, calls: 0, revenueE18: 0n, refunds: 0, refundedE18: 0n, buyers: new Map() }
      sums.set(key, sum)
    }
    if (isRefund) {
      sum.refunds++
      sum.refundedE18 += priceE18
      return
    }
    sum.calls += sign
    sum.revenueE18 += sign > 0 ? priceE18 : -priceE18
    sum.buyers.set(buyer, (sum.buyers.get(buyer) ?? 0) + sign)
  }
  const day = Math.floor(atMs / DAY_MS)
  add('day', String(storeId), day)
  add('hour', String(storeId), Math.floor(atMs / HOUR_MS))
  if (linkId !== '') add('day', scopeOfLink(String(storeId), String(linkId)), day)
}

const counts = {
  sales: (status: unknown) => Number(status !== null && status !== 'reorged'),
  refunds: (status: unknown) => Number(status === 'refunded'),
  standing: (status: unknown) => Number(status !== null && status !== 'reorged' && status !== 'refunded'),
} as const

export function addFees(sums: Map<string, FeeSum>, row: Row): void {
  const { was, became } = row
  if (became === null) return
  const change = (name: keyof typeof counts) => counts[name](became) - counts[name](was)
  const [sales, refunds, standing] = [change('sales'), change('refunds'), change('standing')]
  const sumOf = (atMs: unknown): FeeSum => {
    const month = new Date(Number(atMs)).toISOString().slice(0, 7)
    const [store, network, symbol] = [row['store_id'], row['network'], row['symbol']].map(String)
    const key = [
      ...[store!, month, network!, canonical(row, 'asset'), symbol!],
      Number(row['decimals']),
    ] as unknown as FeeSum['key']
    const name = JSON.stringify(key)
    let sum = sums.get(name)
    if (sum === undefined) {
      const none = { sales: 0, sold: 0n, fees: 0n, refunds: 0, refunded: 0n, returned: 0n, standing: 0n }
      sum = { key, asset: String(row['asset']), ...none }
      sums.set(name, sum)
    }
    return sum
  }
  const [amount, fee] = [BigInt(String(row['amount_atomic'])), BigInt(String(row['fee_atomic']))]
  if (sales !== 0 || standing !== 0) {
    const sum = sumOf(row['created_at_ms'])
    sum.sales += sales
    sum.sold += BigInt(sales) * amount
    sum.fees += BigInt(sales) * fee
    sum.standing += BigInt(standing) * amount
  }
  if (refunds !== 0 && row['refunded_at_ms'] !== null) {
    const sum = sumOf(row['refunded_at_ms'])
    sum.refunds += refunds
    sum.refunded += BigInt(refunds) * amount
    sum.returned += BigInt(refunds) * fee
  }
}
