import { shortAddress } from '../components/address.ts'
import { Amount } from '../components/amount.ts'
import { Badge } from '../components/badge.ts'
import { NetworkBadge } from '../components/networkBadge.ts'
import { Table } from '../components/table.ts'
import { Time } from '../components/time.ts'
import { msOf, purchaseWords } from '../desk/words.ts'
import { type Children, html } from '../html.ts'
import type { PurchaseAnswer } from './types.ts'

export interface PurchaseTableProps {
  readonly purchases: readonly PurchaseAnswer[]
  readonly empty: Children
}

/** Purchases, one a line; the time leads to the whole of it. */
export function PurchaseTable({ purchases, empty }: PurchaseTableProps) {
  const nowMs = Date.now()
  const columns = [
    {
      ...{ key: 'time', title: 'When' },
      cell: ({ id, createdAt }: PurchaseAnswer) =>
        html`<a class="desk-main-cell" href=${`/dashboard/purchases/${id}`}><${Time} atMs=${msOf(createdAt)} nowMs=${nowMs} /></a>`,
    },
    {
      ...{ key: 'amount', title: 'Amount', align: 'end' },
      cell: ({ amount, currency }: PurchaseAnswer) =>
        html`<${Amount} value=${amount} currency=${currency} />`,
    },
    {
      ...{ key: 'link', title: 'What' },
      cell: ({ linkTitle }: PurchaseAnswer) =>
        html`<span class="desk-text" dir="auto">${linkTitle ?? 'Payment session'}</span>`,
    },
    {
      ...{ key: 'status', title: 'State' },
      cell: ({ status }: PurchaseAnswer) => {
        const { words, tone } = purchaseWords(status)
        return html`<${Badge} tone=${tone}>${words}<//>`
      },
    },
    {
      ...{ key: 'buyer', title: 'Buyer' },
      cell: ({ buyerWallet }: PurchaseAnswer) =>
        html`<span class="mono number" title=${buyerWallet}>${shortAddress(buyerWallet)}</span>`,
    },
    {
      key: 'network',
      title: 'Network',
      cell: ({ network }: PurchaseAnswer) => html`<${NetworkBadge} network=${network} />`,
    },
  ]
  return html`<${Table} caption="Purchases" columns=${columns} rows=${purchases} keyOf=${({ id }: PurchaseAnswer) => id} empty=${empty} />`
}
