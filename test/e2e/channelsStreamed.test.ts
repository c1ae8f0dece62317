import t, { type Test } from 'tap'
import { until } from '../helpers/rawHttp.ts'
import { present, read } from './helpers/buyers.ts'
import { channelsSection, newChannelBuyer, signVoucher } from './helpers/channelBuyer.ts'
import { earnings } from './helpers/channelSale.ts'
import { startProduct } from './helpers/product.ts'

/** A link whose responses are streamed and cost a millionth of a dollar per byte. Their length is in the query. */
async function startStreams(t: Test) {
  const product = await startProduct(t, { evm: channelsSection() })
  product.api.answerWith((request, response) => {
    const { searchParams } = new URL(request.url!, 'http://api')
    response.writeHead(200, { 'content-type': 'text/plain' })
    response.write('x'.repeat(Number(searchParams.get('bytes'))))
    if (!searchParams.has('endless')) response.end()
  })
  const url = await product.addLink('stream', '0.01', {
    responseMode: 'raw',
    price: { upTo: '0.01', by: { bytes: '1' }, otherwise: '0.005', stream: true },
  })
  const buyer = await newChannelBuyer(product.chains)
  const charged = (chargedAtomic: bigint) =>
    until(async () => (await earnings(product))?.chargedAtomic === chargedAtomic)
  return { product, api: product.api, url, buyer, charged }
}

/** A call whose response the buyer stops reading after its first bytes. */
async function leave(target: string, voucher: string): Promise<void> {
  const leaving = new AbortController()
  const response = await fetch(target, { headers: { 'PAYMENT-SIGNATURE': voucher }, signal: leaving.signal })
  await response.body!.getReader().read()
  leaving.abort()
}

t.test('the official client pays streams at their end, and deposits once', async (t) => {
  const { product, url, buyer, api, charged } = await startStreams(t)
  const first = await read(await buyer.fetch(`${url}?bytes=100`))
  t.match(first, { status: 200, text: 'x'.repeat(100), receipt: { success: true, transaction: /^0x/ } })
  t.equal(first.receipt!.extra, undefined, 'the charge is not known at the head of a stream')
  await charged(100n)
  for (const [bytes, total] of [
    [30, 130n],
    [20_000, 10_130n],
    [0, 10_130n],
    [1, 10_131n],
  ] as const) {
    const bought = await read(await buyer.fetch(`${url}?bytes=${bytes}`))
    t.match(bought, { status: 200, text: 'x'.repeat(bytes), receipt: undefined })
    await charged(total)
  }
  t.equal(api.calls.length, 5)
  t.equal(await product.chains.both[0].balance(buyer.address), 49_900_000n)
})

t.test('a repeat of a streamed call gets the stored response with the receipt', async (t) => {
  const { url, buyer, api, charged } = await startStreams(t)
  await read(await buyer.fetch(`${url}?bytes=1`))
  await charged(1n)
  const target = `${url}?bytes=50`
  const voucher = await signVoucher(buyer, url, { max: 10_001n })
  t.match(await present(target, voucher), { status: 200, receipt: undefined })
  await charged(51n)
  t.match(await present(target, voucher), {
    status: 200,
    text: 'x'.repeat(50),
    receipt: { extra: { chargedAmount: '50', channelState: { chargedCumulativeAmount: '51' } } },
  })
  t.equal(api.calls.length, 2)
})

t.test('a buyer who leaves a stream is charged what was counted', async (t) => {
  const { product, url, buyer, charged } = await startStreams(t)
  await read(await buyer.fetch(`${url}?bytes=1`))
  await charged(1n)
  await leave(`${url}?bytes=700&endless=`, await signVoucher(buyer, url, { max: 10_001n }))
  await charged(701n)
  const next = await read(await buyer.fetch(`${url}?bytes=5`))
  t.match(next, { status: 200, text: 'xxxxx' }, next.text)
  await charged(706n)
  t.match(await earnings(product), { calls: 3 })
})
