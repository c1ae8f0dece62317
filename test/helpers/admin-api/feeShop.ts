import type { Test } from 'tap'
import { builtInAssets } from '../../../core/domain/asset.ts'
import { offersOf, openTerms } from '../../../core/offers/offers.ts'
import type { FoundTransfer } from '../../../core/ports/chains/transferProofs.ts'
import { createScriptedSettler, scriptedPayment, testNetwork } from '../settler.ts'
import { sell } from './sell.ts'
import { startAdmin } from './startAdmin.ts'

/** The wallet that fees are paid to. */
export const operator = `0x${'4'.repeat(40)}`
export const usdc = builtInAssets.find(({ network }) => network === testNetwork)!
/** A second token, which is worth half as much. */
export const half = { ...usdc, address: `0x${'9'.repeat(40)}`, symbol: 'HALF', usdPerUnit: '0.5' }

/** Stores that owe fees of 5 %, and a scripted chain on which they pay them. */
export async function feeShop(
  t: Test,
  more: { payTo?: string | null; assets?: (typeof usdc)[]; least?: bigint } = {},
) {
  const settler = createScriptedSettler()
  if (more.least !== undefined) Object.assign(settler, { minPriceAtomic: more.least })
  const assets = more.assets ?? [usdc]
  const chains = {
    assets,
    settlers: [settler],
    settler: (of: string) => (of === testNetwork ? settler : undefined),
  }
  const transfers: FoundTransfer[] = []
  const payTo = more.payTo === undefined ? operator : more.payTo
  const feesPayTo = { base: payTo, solana: null }
  const f = await startAdmin(t, {
    assets,
    feesPayTo,
    offersOf: (sold) => offersOf(sold, chains, 300),
    termsOf: (sold) => openTerms(sold, chains, 300),
    transferProofs: {
      prove: async (wanted, transaction) => {
        const found = transfers.filter(
          (one) => one.transaction === transaction && one.amountAtomic === wanted.amountAtomic,
        )
        if (found.some(({ atMs }) => atMs < wanted.notBeforeMs)) return { status: 'mismatch', what: 'time' }
        return found.length > 0 && wanted.payTo === operator
          ? { status: 'found', transfers: found }
          : { status: 'mismatch', what: 'amount' }
      },
      find: async (wanted) => {
        const found = transfers.filter((one) => one.amountAtomic === wanted.amountAtomic)
        return found.length > 0 ? { status: 'found', transfers: found } : { status: 'none', isComplete: true }
      },
    },
  })
  const opened = async () => {
    const store = await f.store()
    const ask = (body?: object) =>
      f.call('POST', '/api/v1/fees/invoices', { key: store.key, ...(body !== undefined && { body }) })
    const owed = async () => (await f.call('GET', '/api/v1/fees', { key: store.key })).body.data
    return {
      ...store,
      sale: (amount: string) => sell(f.db, { storeId: store.id, linkId: 'one', amount, atMs: f.clock.nowMs }),
      ask,
      owed,
      invoices: async () =>
        (await f.call('GET', '/api/v1/fees/invoices', { key: store.key })).body.data.invoices,
      confirm: (id: string, txHash?: string) =>
        f.call('POST', `/api/v1/payments/${id}/confirm`, {
          key: store.key,
          ...(txHash !== undefined && { body: { txHash } }),
        }),
    }
  }
  let sent = 0
  return {
    f,
    opened,
    ...(await opened()),
    settler,
    chains,
    /** The operator names another wallet in the configuration. */
    moveFees: (to: string) => {
      feesPayTo.base = to
    },
    pay: ({ checkoutUrl, id }: { checkoutUrl: string; id: string }, nonce: string, value: string) =>
      f.call('POST', `/api/v1/payments/${id}/pay${new URL(checkoutUrl).search}`, {
        headers: { 'payment-signature': scriptedPayment(nonce, value) },
      }),
    send(from: string, amountAtomic: bigint, more: Partial<FoundTransfer> = {}): FoundTransfer {
      const digits = String(++sent).padStart(64, '0')
      const transfer: FoundTransfer = {
        ...{
          key: digits,
          nonce: digits,
          transaction: `0x${digits}`,
          event: 'transfer:0',
          from,
          amountAtomic,
        },
        ...{ block: 7, atMs: f.clock.nowMs, ...more },
      }
      transfers.push(transfer)
      return transfer
    },
    balanced: async () => {
      const { broken, unbalanced, refundDue } = await f.db.purchases.ledgerCheck()
      t.strictSame({ broken, unbalanced, refundDue }, { broken: [], unbalanced: [], refundDue: 0 })
    },
  }
}

/** An answer that refuses. */
export const refused = (code: string, message: RegExp) => ({
  status: 409,
  body: { error: { code, message } },
})
