import type { Test } from 'tap'
import type { AdminApiDeps } from '../../../admin-api/deps.ts'
import { builtInAssets } from '../../../core/domain/asset.ts'
import type {
  FoundTransfer,
  TransferVerdict,
  WantedTransfer,
} from '../../../core/ports/chains/transferProofs.ts'
import { startAdmin } from './startAdmin.ts'

export const MINUTE_MS = 60_000
export const hash = (digit: string) => `0x${digit.repeat(64)}`
export const usdc = builtInAssets.find(({ network }) => network === 'eip155:84532')!.address
export const buyer = '0x00000000000000000000000000000000000000b1'

/** A store that asks to be paid, and a chain that knows the transfers that the test puts there. */
export async function shop(
  t: Test,
  more: { readonly refunds?: boolean; readonly deps?: Partial<AdminApiDeps> } = {},
) {
  const chain = {
    transfers: [] as FoundTransfer[],
    verdict: undefined as TransferVerdict | undefined,
    /** The wallet that all of them pay; any while undefined. */
    payee: undefined as string | undefined,
    requests: [] as (WantedTransfer & { readonly transaction?: string })[],
  }
  const judge = (wanted: WantedTransfer, transaction?: string): TransferVerdict => {
    chain.requests.push({ ...wanted, ...(transaction !== undefined && { transaction }) })
    if (chain.verdict !== undefined) return chain.verdict
    const transfers = chain.transfers.filter(
      (one) =>
        one.amountAtomic === wanted.amountAtomic &&
        one.atMs >= wanted.notBeforeMs &&
        (chain.payee === undefined || chain.payee === wanted.payTo) &&
        (transaction === undefined || one.transaction === transaction),
    )
    if (transfers.length > 0) return { status: 'found', transfers }
    if (transaction === undefined) return { status: 'none', isComplete: true }
    const isThere = chain.transfers.some((one) => one.transaction === transaction)
    return isThere
      ? { status: 'mismatch', what: 'amount', movedAtomic: 49_980_000n }
      : { status: 'pending', transaction, isKnown: false }
  }
  const f = await startAdmin(t, {
    transferProofs: { prove: async (w, transaction) => judge(w, transaction), find: async (w) => judge(w) },
    ...more.deps,
    ...(more.refunds && { refundProofs: { prove: async () => ({ status: 'proved', paymentKeys: [] }) } }),
  })
  const store = await f.store()
  let sent = 0
  return {
    f,
    chain,
    ...store,
    open: async (amount = '49.99') =>
      (await f.call('POST', '/api/v1/payments', { key: store.key, body: { amount, title: 'A chair' } })).body
        .data,
    send(facts: Partial<FoundTransfer> = {}): FoundTransfer {
      const digits = String(++sent).padStart(64, '0')
      const transfer: FoundTransfer = {
        ...{ key: digits, nonce: digits, transaction: `0x${digits}`, event: 'transfer:0', from: buyer },
        ...{ amountAtomic: 49_990_000n, block: 7, atMs: f.clock.nowMs, ...facts },
      }
      chain.transfers.push(transfer)
      return transfer
    },
    confirm: (id: string, body?: unknown, key = store.key) =>
      f.call('POST', `/api/v1/payments/${id}/confirm`, { key, ...(body !== undefined && { body }) }),
    read: async (id: string) => (await f.call('GET', `/api/v1/payments/${id}`, { key: store.key })).body.data,
  }
}
