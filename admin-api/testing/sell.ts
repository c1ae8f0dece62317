import { createHash, randomUUID } from 'node:crypto'
import type { SqliteStore } from '../../adapters/sqlite/openSqlite.ts'
import { builtInAssets } from '../../core/domain/asset.ts'
import { parseAmount } from '../../core/domain/money.ts'
import { purchaseOf } from '../../core/payments/purchaseOf.ts'

/** Books a sale the way the gateway does: claimed, verified, settled, with its ledger entries. @returns its purchase id */
export async function sell(
  db: SqliteStore,
  sale: { storeId: string; linkId: string; amount: string; atMs: number; buyer?: string },
): Promise<string> {
  const asset = builtInAssets.find((a) => a.network === 'eip155:84532')!
  const purchaseId = randomUUID()
  const key = createHash('sha256').update(purchaseId).digest('hex')
  const identity = {
    key,
    network: asset.network,
    asset: asset.address,
    payer: sale.buyer ?? '0x00000000000000000000000000000000000000b1',
    nonce: `0x${key}`,
    payTo: '0x00000000000000000000000000000000000000a1',
    amountAtomic: parseAmount(sale.amount, asset.decimals),
    validBeforeMs: sale.atMs + 300_000,
  }
  const owner = 'test'
  const { storeId, linkId } = sale
  await db.payments.claim({
    ...identity,
    owner,
    linkId,
    storeId,
    requestHash: key,
    purchaseId,
    payload: '{}',
  })
  await db.payments.advance(key, owner, 'claimed', 'verified')
  const transaction = `0x${key}`
  const attempt = { settler: 'test', bytes: '0x', transaction, sequence: null }
  await db.payments.beginSettlement(key, owner, attempt, null)
  const { purchase, entries } = purchaseOf(
    { ...identity, purchaseId, linkId, storeId, transaction, reviewTokenHash: key, atMs: sale.atMs },
    asset,
  )
  if (!(await db.payments.settle(key, owner, transaction, purchase, entries))) throw new Error('not settled')
  return purchaseId
}
