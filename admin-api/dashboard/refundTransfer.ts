import { chainNameOf } from '../../core/domain/network.ts'
import type { Purchase } from '../../core/domain/purchase.ts'
import { transferBackOf } from '../../core/payments/transferBackOf.ts'
import type { Api } from '../deps.ts'
import { count, exactly, text } from '../schema/answers.ts'

/** The transfer that a seller's wallet sends to refund a purchase, as `POST /api/v1/purchases/:id/refunds` will check it. */
const transfer = exactly({
  chain: { enum: ['base', 'solana'] },
  network: text('CAIP-2.'),
  asset: text(),
  from: text('The wallet that was paid.'),
  to: text("The buyer's wallet."),
  amountAtomic: text('In the smallest unit of the token.'),
  decimals: { ...count, description: 'Of the token.' },
  tokenProgram: { enum: ['token', 'token-2022'], description: 'Of a token on Solana.' },
})

export const refundTransferSchema = { anyOf: [transfer, { type: 'null' }] } as const

/** @returns null where nothing is left to refund */
export async function refundTransferOf(api: Api, purchase: Purchase) {
  if (purchase.status === 'refunded' || purchase.status === 'reorged') return null
  const payment = await api.payments.find(purchase.paymentKey)
  if (payment === undefined) return null
  const { network, asset, from, to, amountAtomic } = transferBackOf(purchase, payment, '')
  const known = api.assets.find((one) => one.network === network && one.address === asset)
  return {
    chain: chainNameOf(network),
    network,
    asset,
    from,
    to,
    amountAtomic: String(amountAtomic),
    decimals: purchase.decimals,
    tokenProgram: known?.program ?? 'token',
  }
}
