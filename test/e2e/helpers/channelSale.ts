import type { Test } from 'tap'
import { encodeFunctionData } from 'viem'
import type { ChannelConfig } from '../../../core/domain/channel.ts'
import batchSettlement from '../../../localnet/evm/artefacts/BatchSettlement.json' with { type: 'json' }
import { BATCH_SETTLEMENT_ADDRESS } from '../../../localnet/evm/startLocalEvm.ts'
import { read } from './buyers.ts'
import { type ChannelBuyer, channelsSection, newChannelBuyer } from './channelBuyer.ts'
import type { ConfigSections } from './config.ts'
import { type Product, startProduct } from './product.ts'

/** A product that sells a link by channels, and a buyer who has paid one call. */
export async function startSale(t: Test, more: object = {}, parts: ConfigSections = {}) {
  const product = await startProduct(t, { ...parts, evm: channelsSection(more) })
  const [evm] = product.chains.both
  const url = await product.addLink('channel')
  const buyer = await newChannelBuyer(product.chains)
  const first = await read(await buyer.fetch(`${url}?n=0`))
  t.equal(first.status, 200, first.text)
  t.match(first.receipt, { success: true, transaction: /^0x/, extra: { chargedAmount: '10000' } })
  return { product, evm, url, buyer, api: product.api }
}

export const watchNow = async ({ tollgate }: Pick<Product, 'tollgate'>) => {
  for (const watch of tollgate.stack.channelWatches) await watch.runNow()
}

export const earnings = async ({ tollgate }: Product) => {
  const { store, ports } = tollgate.stack
  const [open] = ports.channels!.book.all
  const [sum] = await store.channels.earnings(open!.channel.storeId)
  return sum!
}

/** A payment for the address that the buyer's client has made and not sent. */
export async function voucherFor(buyer: ChannelBuyer, url: string): Promise<string> {
  const response = await fetch(url)
  const offer = buyer.client.getPaymentRequiredResponse(
    (name) => response.headers.get(name),
    await response.json(),
  )
  const accepts = offer.accepts.filter(({ scheme }) => scheme === 'batch-settlement')
  const payload = await buyer.client.createPaymentPayload({ ...offer, accepts })
  return buyer.client.encodePaymentSignatureHeader(payload)['PAYMENT-SIGNATURE']!
}

/** The same payment with an identifier of the buyer (x402 extension `payment-identifier`). */
export function withIdentifier(payment: string, id: string): string {
  const envelope = JSON.parse(Buffer.from(payment, 'base64').toString())
  const extensions = { 'payment-identifier': { info: { required: false, id } } }
  return Buffer.from(JSON.stringify({ ...envelope, extensions })).toString('base64')
}

/** The payer's own transaction to the contract. */
export async function sendAsPayer({ chains }: Product, functionName: string, args: unknown[]): Promise<void> {
  const [config] = args as [ChannelConfig]
  const data = encodeFunctionData({ abi: batchSettlement.abi as never, functionName, args } as never)
  const from = config.payer as `0x${string}`
  await chains.evm.rpc('anvil_impersonateAccount', from)
  await chains.evm.fundEth(from, 10n ** 18n)
  await chains.evm.send({ from, to: BATCH_SETTLEMENT_ADDRESS, data })
}
