import t from 'tap'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { createEvmBuyer } from '../../buyer/chains/evmBuyer.ts'
import { refundChannel } from '../../buyer/channels/refundChannel.ts'
import { payForUrl } from '../../buyer/payForUrl.ts'
import type { PayOptions } from '../../buyer/payOptions.ts'
import { createPaymentFiles } from '../../cli/pay/paymentFiles.ts'
import { channelsSection } from './helpers/channelBuyer.ts'
import { earnings } from './helpers/channelSale.ts'
import { startProduct } from './helpers/product.ts'

t.test('tollgate pay goes on from what each call has used', async (t) => {
  const product = await startProduct(t, { evm: channelsSection() })
  product.api.answerWith((request, response) => {
    const amount = new URL(request.url!, 'http://api').searchParams.get('cost')
    response.writeHead(200, { 'settlement-overrides': JSON.stringify({ amount }) })
    response.end('{}')
  })
  const url = await product.addLink('use', '0.01', {
    price: { upTo: '0.01', by: 'header', otherwise: '0.01' },
  })
  const { evm } = product.chains
  const privateKey = generatePrivateKey()
  const { address } = privateKeyToAccount(privateKey)
  await evm.mintUsdc(address, 10_000_000n)
  const folder = t.testdir()
  const payments = createPaymentFiles(`${folder}/payments`)
  const optionsOf = (cost: number, more: Partial<PayOptions> = {}): PayOptions => ({
    url: `${url}?cost=${cost}`,
    wallets: { eip155: createEvmBuyer({ privateKey, rpcUrl: evm.rpcUrl }) },
    rpcUrl: evm.rpcUrl,
    network: 'eip155:84532',
    payments,
    retryDelaysMs: [10, 10],
    ...more,
  })
  const pay = (cost: number, more?: Partial<PayOptions>) => payForUrl(optionsOf(cost, more))
  const paid = (chargedAmount: string, left: string) => ({
    outcome: 'paid',
    isVerified: true,
    chargedAmount,
    channel: { left },
    warnings: [],
  })
  t.match(await pay(4_000, { deposit: '0.1' }), paid('0.004', '0.096'))
  t.match(await pay(0), paid('0.00', '0.096'))
  t.match(await pay(1_000), paid('0.001', '0.095'))
  // Another machine has the same wallet, and no record of the channel.
  const other = createPaymentFiles(`${folder}/other`)
  const elsewhere = await pay(2_000, { deposit: '0.1', payments: other })
  t.match(
    elsewhere,
    { outcome: 'paid', chargedAmount: '0.002', channel: { left: '0.093' } },
    elsewhere.message,
  )
  const back = await pay(500)
  t.match(back, { outcome: 'paid', channel: { left: '0.0925' } }, back.message)
  t.match(back.warnings, [/corrected the channel's charged total/])
  t.match(await earnings(product), { calls: 5, chargedAtomic: 7_500n })
  t.match(await refundChannel(optionsOf(0)), { outcome: 'refunded', isVerified: true })
  t.equal(await evm.balanceUsdc(address), 10_000_000n - 7_500n)
})
