import { hash, randomUUID } from 'node:crypto'
import { builtInAssets } from '../../core/domain/asset.ts'
import { parseAmount } from '../../core/domain/money.ts'
import type { NetworkId } from '../../core/domain/network.ts'
import type { Sale } from '../../core/payments/purchase.ts'
import * as rules from '../../core/payments/rules.ts'
import { DAY_MS } from '../../core/ports/store/figures.ts'
import type { Stack } from '../runtime/open/openStack.ts'
import type { SampleLink } from './sampleStores.ts'

export interface MonthOfLink {
  readonly storeId: string
  readonly linkId: string
  readonly link: Pick<SampleLink, 'price' | 'dailyCalls' | 'reviews'>
  readonly network: NetworkId
  readonly payTo: string
  readonly nowMs: number
  /** One buyer was charged and got nothing: that waits for the seller. */
  readonly hasRefundDue: boolean
}

export type SellingStack = Pick<Stack, 'store' | 'lease'>

const DAYS = 30
const hourMs = DAY_MS / 24
const PROBES_A_DAY = 8

/**
 * Gives a link the month that it would have had: traffic, checks with a bad day among them, sales to some dozen wallets, by the
 * rules that real ones are booked by, and reviews. Nothing of it is on a chain, so nobody is told to look for it there.
 */
export async function sellForAMonth(stack: SellingStack, month: MonthOfLink): Promise<void> {
  const { store } = stack
  const { linkId, link, nowMs } = month
  const salesAt: number[] = []
  const badDay = 3 + Math.floor(Math.random() * 20)
  for (let day = 0; day < DAYS; day++) {
    // Weekends are quieter, and business has grown.
    const share = (day % 7 < 2 ? 0.55 : 1) * (1 - day / 60)
    const calls = Math.round(link.dailyCalls * share * (0.85 + Math.random() * 0.3))
    const atMs = nowMs - day * DAY_MS
    await store.figures.addTraffic([
      {
        ...{ linkId, hour: Math.floor(atMs / hourMs) - 1, views: calls * 3 },
        ...{ challenges: Math.round(calls * 1.6), calls, failedCalls: 0 },
      },
    ])
    for (let probe = 0; probe < PROBES_A_DAY; probe++) {
      const ok = !(day === badDay && probe < 1 + (badDay % 3))
      await store.links.addHealthEvent({
        ...{ linkId, atMs: atMs - probe * 2 * hourMs - 60_000, kind: 'probe', ok, status: ok ? 200 : 502 },
        ...{
          latencyMs: 40 + Math.round(Math.random() * 60),
          detail: ok ? '' : 'The API answered 502 Bad Gateway.',
        },
      })
    }
    const sales = Number(link.price) === 0 ? 0 : calls
    for (let i = 0; i < sales; i++) salesAt.push(atMs - Math.floor(Math.random() * 0.9 * DAY_MS) - 120_000)
  }
  const sold = await Promise.all(salesAt.map((atMs, i) => claimSale(stack, month, atMs, i)))
  await bookSales(stack, month, sold)
  for (const [i, { isPositive, comment }] of link.reviews.entries()) {
    const { purchaseId, wallet, atMs } = sold[i * 3]!
    await store.reviews.add({
      ...{ id: randomUUID(), purchaseId, linkId, storeId: month.storeId, wallet, isPositive, comment },
      createdAtMs: Math.min(nowMs - hourMs, atMs + hourMs),
    })
  }
}

interface ClaimedSale {
  readonly key: string
  readonly purchaseId: string
  readonly wallet: string
  readonly atMs: number
}

async function claimSale(
  { store, lease }: SellingStack,
  month: MonthOfLink,
  atMs: number,
  i: number,
): Promise<ClaimedSale> {
  const { storeId, linkId, link, network, payTo } = month
  const key = hash('sha256', randomUUID())
  const purchaseId = randomUUID()
  // Some buyers come back.
  const wallet = `0x${hash('sha256', `${storeId} ${i % 23}`).slice(0, 40)}`
  await store.books.claim({
    ...{ key, network, asset: assetOn(network).address, payer: wallet, nonce: key, linkId, sessionId: null },
    ...{
      storeId,
      purchaseId,
      lease: lease.current.id,
      payTo,
      validBeforeMs: atMs + 300_000,
      scheme: 'exact',
    },
    ...{ amountAtomic: parseAmount(link.price, 6), requestHash: key, payload: '{}' },
  })
  return { key, purchaseId, wallet, atMs }
}

/** Each step of all of them in one commit. */
async function bookSales(
  { store }: SellingStack,
  month: MonthOfLink,
  sold: readonly ClaimedSale[],
): Promise<void> {
  const { books } = store
  const read = () => Promise.all(sold.map(async ({ key }) => (await books.find(key))!))
  const attemptOf = (key: string) => ({
    settler: 'demo',
    bytes: '0x00',
    transaction: `0x${key}`,
    sequence: '0',
  })
  const answer = { status: 200, headers: ['Content-Type', 'application/json'], body: Buffer.from('{}') }
  await books.applyAll((await read()).map((record) => rules.begin(record, attemptOf(record.key), answer)))
  const sales = (await read()).map((record, i) => {
    const sale: Sale = {
      payment: record,
      landed: { transaction: `0x${record.key}`, event: '0', block: 1, chargedAtomic: record.amountAtomic },
      asset: assetOn(month.network),
      ...{ reviewTokenHash: record.key, atMs: sold[i]!.atMs },
    }
    return rules.sell(record, sale, attemptOf(record.key), false)
  })
  await books.applyAll(sales)
  const delivered = (await read()).map((record, i) => {
    const isOwed = month.hasRefundDue && i === sold.length >> 3
    const end = isOwed ? rules.owe(record, 'The API answered 502 after the payment.') : rules.deliver(record)
    return { ...end, dueInMs: null }
  })
  await books.applyAll(delivered)
}

const assetOn = (network: NetworkId) => builtInAssets.find((asset) => asset.network === network)!
