import { Badge } from '../components/card.ts'
import { Amount, NetworkBadge, shortAddress } from '../components/money.ts'
import { Table } from '../components/table.ts'
import { Time } from '../components/time.ts'
import { type Children, html } from '../html.ts'
import { msOf, purchaseWords } from '../shell/words.ts'
import type { PurchaseResponse } from './types.ts'

export interface PurchaseTableProps {
  readonly purchases: readonly PurchaseResponse[]
  readonly empty: Children
}

/** Purchases, one per row. The time links to the purchase. */
export function PurchaseTable({ purchases, empty }: PurchaseTableProps) {
  const nowMs = Date.now()
  const columns = [
    {
      key: 'time',
      title: 'When',
      cell: ({ id, createdAt }: PurchaseResponse) =>
        html`<a class="shell-main-cell" href=${`/dashboard/purchases/${id}`}><${Time} atMs=${msOf(createdAt)} nowMs=${nowMs} /></a>`,
    },
    {
      key: 'amount',
      title: 'Amount',
      align: 'end',
      cell: ({ amount, currency }: PurchaseResponse) =>
        html`<${Amount} value=${amount} currency=${currency} />`,
    },
    {
      key: 'link',
      title: 'What',
      cell: ({ linkTitle }: PurchaseResponse) =>
        html`<span class="shell-text" dir="auto">${linkTitle ?? 'Payment session'}</span>`,
    },
    {
      key: 'status',
      title: 'State',
      cell: ({ status }: PurchaseResponse) => {
        const { words, tone } = purchaseWords(status)
        return html`<${Badge} tone=${tone}>${words}<//>`
      },
    },
    {
      key: 'buyer',
      title: 'Buyer',
      cell: ({ buyerWallet }: PurchaseResponse) =>
        html`<span class="mono number" title=${buyerWallet}>${shortAddress(buyerWallet)}</span>`,
    },
    {
      key: 'network',
      title: 'Network',
      cell: ({ network }: PurchaseResponse) => html`<${NetworkBadge} network=${network} />`,
    },
  ]
  return html`<${Table} caption="Purchases" columns=${columns} rows=${purchases} keyOf=${({ id }: PurchaseResponse) => id} empty=${empty} />`
}
