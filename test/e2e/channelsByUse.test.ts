import t, { type Test } from 'tap'
import { present, read } from './helpers/buyers.ts'
import { channelsSection, newChannelBuyer, signVoucher } from './helpers/channelBuyer.ts'
import { earnings, voucherFor, watchNow } from './helpers/channelSale.ts'
import { startProduct } from './helpers/product.ts'

/** A link that costs at most $0.01, whose API states in the query what a call has cost. */
async function startUse(t: Test, more: object = {}, price: object = {}) {
  const product = await startProduct(t, { evm: channelsSection(more) })
  const { api } = product
  api.answerWith((request, response) => {
    const cost = new URL(request.url!, 'http://api').searchParams.get('cost')
    const overrides = cost === null ? {} : { 'settlement-overrides': JSON.stringify({ amount: cost }) }
    response.writeHead(200, { 'content-type': 'application/json', ...overrides })
    response.end(JSON.stringify({ target: request.url }))
  })
  const url = await product.addLink('use', '0.01', {
    price: { upTo: '0.01', by: 'header', otherwise: '0.005', ...price },
  })
  const buyer = await newChannelBuyer(product.chains)
  const buy = async (cost: number | string, from: { fetch: typeof fetch } = buyer) =>
    read(await from.fetch(`${url}?cost=${cost}`))
  const [evm] = product.chains.both
  return { product, api, evm, url, buyer, buy }
}

const totalOf = (chargedAmount: string, chargedCumulativeAmount: string) => ({
  status: 200,
  receipt: { success: true, extra: { chargedAmount, channelState: { chargedCumulativeAmount } } },
})

t.test('the official client pays what each call has used, from one deposit', async (t) => {
  const { product, evm, url, buyer, buy, api } = await startUse(t)
  const unpaid = JSON.parse(
    Buffer.from((await fetch(url)).headers.get('payment-required')!, 'base64').toString(),
  )
  t.match(
    unpaid.accepts.map(({ scheme, amount }: { scheme: string; amount: string }) => [scheme, amount]),
    [
      ['upto', '10000'],
      ['batch-settlement', '10000'],
    ],
  )
  t.match(await buy('4000'), totalOf('4000', '4000'))
  const second = await buy('2500')
  t.match(second, totalOf('2500', '6500'))
  t.notOk(second.headers.has('settlement-overrides'))
  t.match(await buy('0'), totalOf('0', '6500'))
  t.match(await buy('20000'), totalOf('10000', '16500'), 'more than the most costs the most')
  t.match(await read(await buyer.fetch(`${url}?n=1`)), totalOf('5000', '21500'), 'the use is not known')
  t.match(await buy('1'), totalOf('1', '21501'))
  t.equal(api.calls.length, 6)
  t.equal(await evm.balance(buyer.address), 49_900_000n, 'one deposit of ten calls')
  t.match(await earnings(product), { calls: 6, chargedAtomic: 21_501n, claimedAtomic: 0n })
  t.match(await buyer.scheme.refund(url), { success: true, amount: '78499' })
  t.equal(await evm.balance(buyer.address), 50_000_000n - 21_501n)
  t.match(await earnings(product), { chargedAtomic: 21_501n, claimedAtomic: 21_501n })
})

t.test(
  'calls of twenty buyers at once, and twenty at once of one, are charged what they have used',
  async (t) => {
    const { product, buy, buyer, api } = await startUse(t)
    const buyers = [buyer]
    while (buyers.length < 20) buyers.push(await newChannelBuyer(product.chains))
    const all = await Promise.all(buyers.map((one, n) => buy(100 + n, one)))
    for (const [n, one] of all.entries()) t.match(one, totalOf(`${100 + n}`, `${100 + n}`), one.text)
    const more = await Promise.all(Array.from({ length: 20 }, (_, n) => buy(n)))
    for (const [n, one] of more.entries())
      t.match(one, { status: 200, receipt: { extra: { chargedAmount: `${n}` } } }, one.text)
    t.equal(api.calls.length, 40)
    t.match(await earnings(product), { calls: 40, chargedAtomic: 20n * 100n + 190n + 190n })
  },
)

t.test('a client that has lost its records is corrected to what was charged', async (t) => {
  const { buyer, buy } = await startUse(t)
  await buy('4000')
  await buy('0')
  const other = buyer.forgetful()
  t.match(await buy('300', other), totalOf('300', '4300'))
  t.match(await buy('7'), totalOf('7', '4307'), 'and so is the first client')
})

t.test('a repeat gets the stored response, also of a call that has cost nothing', async (t) => {
  const { product, url, buyer, buy, api } = await startUse(t)
  await buy('10')
  for (const [cost, total] of [
    ['20', '30'],
    ['0', '30'],
  ] as const) {
    const target = `${url}?cost=${cost}`
    const calls = api.calls.length
    const voucher = await voucherFor(buyer, target)
    const both = await Promise.all([present(target, voucher), present(target, voucher)])
    for (const one of [...both, await present(target, voucher)])
      t.match(one, { ...totalOf(cost, total), text: both[0].text })
    t.equal(api.calls.length, calls + 1)
    t.equal((await read(await buyer.fetch(`${url}?cost=0&after=${cost}`))).status, 200)
  }
  t.match(await earnings(product), { chargedAtomic: 30n })
})

t.test('a seller that fails is not paid', async (t) => {
  const { product, url, buyer, buy, api } = await startUse(t)
  await buy('10')
  const voucher = await voucherFor(buyer, `${url}?cost=5`)
  api.answerWith((_request, response) => {
    response.writeHead(404, { 'settlement-overrides': '{"amount":"9"}' })
    response.end()
  })
  t.match(await present(`${url}?cost=5`, voucher), { status: 404, receipt: undefined })
  t.match(await earnings(product), { calls: 1, chargedAtomic: 10n })
})

t.test('a published voucher that allows more than was charged buys nothing', async (t) => {
  const { product, url, buyer, buy, api, evm } = await startUse(t, { claimAmount: '0.003' })
  await buy('4000')
  await watchNow(product)
  t.equal(await evm.balance(product.wallets.base), 4_000n)
  // The claim has shown the voucher over 10,000 to everyone, and this link costs the difference.
  const other = await product.addLink('other', '0.006')
  const published = await signVoucher(buyer, other, { max: 10_000n })
  const refused = await present(other, published)
  t.match(refused, { status: 402, body: { error: { reason: /voucher_published/ } }, receipt: undefined })
  t.match(await present(`${url}?cost=1`, published), { status: 402, body: { error: { reason: /mismatch/ } } })
  t.equal(api.calls.length, 1)
  t.match(await buy('50'), totalOf('50', '4050'))
  t.equal((await read(await buyer.fetch(other))).status, 200, 'after a call at another price')
  t.match(await earnings(product), { calls: 3, chargedAtomic: 10_050n })
  await watchNow(product)
  t.equal(await evm.balance(product.wallets.base), 10_050n)
})

t.test('a call is sold only if the most that it can cost is covered', async (t) => {
  const { product, evm, url, buyer, buy, api } = await startUse(t)
  await buy('1')
  const most = await product.addLink('most', '0.095')
  t.equal((await read(await buyer.fetch(`${most}?n=1`))).status, 200)
  t.equal(await evm.balance(buyer.address), 49_900_000n, 'from the deposit of the first call')
  const refused = await present(`${url}?cost=1`, await signVoucher(buyer, url, { max: 105_001n }))
  t.match(refused, { status: 402, body: { error: { reason: /cumulative_exceeds_balance/ } } })
  t.equal(api.calls.length, 2)
  t.match(await buy('1'), totalOf('1', '95002'), 'after another deposit')
})
