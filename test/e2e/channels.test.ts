import { computeChannelId } from '@x402/evm/batch-settlement/client'
import t from 'tap'
import { encodeFunctionData } from 'viem'
import batchSettlement from '../../localnet/evm/artefacts/BatchSettlement.json' with { type: 'json' }
import { BATCH_SETTLEMENT_ADDRESS } from '../../localnet/evm/startLocalEvm.ts'
import { responseStatus } from './helpers/api.ts'
import { present, read } from './helpers/buyers.ts'
import { channelsSection, newChannelBuyer, signVoucher } from './helpers/channelBuyer.ts'
import { earnings, startSale, voucherFor, watchNow, withIdentifier } from './helpers/channelSale.ts'
import { startProduct } from './helpers/product.ts'

t.test('the official client deposits once, pays by vouchers and gets the rest back', async (t) => {
  const { product, evm, url, buyer, api } = await startSale(t)
  for (let n = 1; n < 20; n++) {
    const bought = await read(await buyer.fetch(`${url}?n=${n}`))
    t.equal(bought.status, 200, bought.text)
    t.match(bought.body, { data: { target: `/channel?n=${n}` } })
    t.match(bought.receipt, {
      success: true,
      transaction: n === 10 ? /^0x/ : '',
      amount: n === 10 ? /./ : '',
    })
  }
  t.equal(api.calls.length, 20)
  t.equal(await evm.balance(buyer.address), 49_800_000n, 'two deposits of ten calls each')
  t.match(await earnings(product), { calls: 20, chargedAtomic: 200_000n, claimedAtomic: 0n })

  t.match((await read(await buyer.fetch(`${url}?n=20`))).receipt, { transaction: /^0x/ })
  t.match(await buyer.scheme.refund(url), { success: true, amount: '90000' })
  t.equal(await evm.balance(buyer.address), 50_000_000n - 210_000n)
  t.equal(
    await evm.balance(product.wallets.base),
    210_000n,
    'the seller is paid, although no claim comes after',
  )
  t.match(await earnings(product), { chargedAtomic: 210_000n, claimedAtomic: 210_000n })
  await t.rejects(buyer.scheme.refund(url), /no remaining balance|refund_no_balance/)
})

t.test('a channel is claimed and paid out when it owes enough', async (t) => {
  const { product, evm, url, buyer } = await startSale(t, { claimAmount: '0.03' })
  await watchNow(product)
  t.equal(await evm.balance(product.wallets.base), 0n, 'too little is owed')
  for (let n = 1; n < 4; n++) t.equal((await buyer.fetch(`${url}?n=${n}`)).status, 200)
  await watchNow(product)
  t.equal(await evm.balance(product.wallets.base), 40_000n)
  t.match(await earnings(product), { chargedAtomic: 40_000n, claimedAtomic: 40_000n })
  t.equal((await buyer.fetch(`${url}?n=5`)).status, 200, 'the channel goes on')
  await watchNow(product)
  t.equal(await evm.balance(product.wallets.base), 40_000n)
})

t.test('a requested withdrawal is claimed at once, and nothing more is sold', async (t) => {
  const { product, evm, url, buyer, api } = await startSale(t)
  const { config } = product.tollgate.stack.ports.channels!.book.all[Symbol.iterator]().next().value!.channel
  const data = encodeFunctionData({
    abi: batchSettlement.abi as never,
    functionName: 'initiateWithdraw',
    args: [config, 90_000n] as never,
  } as never)
  const { chains } = product
  await chains.evm.rpc('anvil_impersonateAccount', buyer.address)
  await chains.evm.fundEth(buyer.address as `0x${string}`, 10n ** 18n)
  await chains.evm.send({ from: buyer.address, to: BATCH_SETTLEMENT_ADDRESS, data })
  await watchNow(product)
  t.equal(await evm.balance(product.wallets.base), 10_000n)
  const refused = await read(await buyer.fetch(`${url}?n=1`))
  t.match(refused, { status: 402, body: { error: { reason: /cumulative_exceeds_balance/ } } })
  t.equal(api.calls.length, 1)
})

t.test('twenty calls at once on one channel are all sold, one after the other', async (t) => {
  const { product, url, buyer, api } = await startSale(t)
  const all = await Promise.all(
    Array.from({ length: 20 }, async (_, n) => read(await buyer.fetch(`${url}?n=${n + 1}`))),
  )
  for (const { status, text } of all) t.equal(status, 200, text)
  t.equal(new Set(api.calls).size, 21)
  t.match(await earnings(product), { calls: 21, chargedAtomic: 210_000n })
})

t.test('a client that has lost its records is corrected', async (t) => {
  const { url, buyer, api } = await startSale(t)
  for (let n = 1; n < 3; n++) t.equal((await buyer.fetch(`${url}?n=${n}`)).status, 200)
  const bought = await read(await buyer.forgetful().fetch(`${url}?n=3`))
  t.match(bought, { status: 200, receipt: { extra: { channelState: { chargedCumulativeAmount: '40000' } } } })
  t.equal(api.calls.length, 4)
})

t.test('the same voucher and request get the stored response, and the seller works once', async (t) => {
  const { product, url, buyer, api } = await startSale(t)
  const voucher = await voucherFor(buyer, `${url}?n=1`)
  const both = await Promise.all([present(`${url}?n=1`, voucher), present(`${url}?n=1`, voucher)])
  const late = await present(`${url}?n=1`, voucher)
  for (const one of [...both, late]) t.match(one, { status: 200, text: both[0].text })
  t.equal(api.calls.length, 2, 'two calls with the first')
  t.match(await earnings(product), { calls: 2, chargedAtomic: 20_000n })
  const other = await present(`${url}?n=2`, voucher)
  t.match(other, { status: 402, receipt: undefined }, 'another request is not paid by it')
})

t.test('a second voucher with the identifier of the last charged call is refused', async (t) => {
  const { product, url, buyer, api } = await startSale(t)
  const id = 'order-0123456789abcdef'
  const first = withIdentifier(await signVoucher(buyer, url, { max: 20_000n }), id)
  const sold = await present(`${url}?n=1`, first)
  t.match(sold, { status: 200 })
  t.match(await present(`${url}?n=1`, first), { status: 200, text: sold.text }, 'the stored response')
  const second = withIdentifier(await signVoucher(buyer, url, { max: 30_000n }), id)
  for (const n of [1, 2]) {
    const refused = await present(`${url}?n=${n}`, second)
    t.match(refused, { status: 409, text: /:20000"/, body: { error: { code: 'payment_id_reused' } } })
  }
  const { book } = product.tollgate.stack.ports.channels!
  book.drop([...book.all][0]!)
  t.match(await present(`${url}?n=2`, second), { status: 409 }, 'also after a restart')
  const stranger = withIdentifier(await signVoucher(buyer, url, { max: 30_000n, stranger: true }), id)
  t.match(await present(`${url}?n=2`, stranger), { status: 402 }, 'only the payer learns of an identifier')
  t.match(await earnings(product), { calls: 2, chargedAtomic: 20_000n })
  t.equal(api.calls.length, 2)

  const next = withIdentifier(await signVoucher(buyer, url, { max: 30_000n }), `${id}-2`)
  t.match(await present(`${url}?n=3`, next), { status: 200 })
  t.match(
    await present(`${url}?n=3`, withIdentifier(next, id)),
    { status: 200 },
    'the voucher proves the payer',
  )
})

t.test('a seller that fails is not paid, and the voucher stays good', async (t) => {
  const { product, url, buyer, api } = await startSale(t)
  const voucher = await voucherFor(buyer, `${url}?n=1`)
  api.answerWith(responseStatus(500))
  t.match(await present(`${url}?n=1`, voucher), { status: 502 })
  t.match(await earnings(product), { calls: 1 })
  api.answerWith((_request, response) => void response.end('{}'))
  t.match(await present(`${url}?n=1`, voucher), { status: 200 })
  t.match(await earnings(product), { calls: 2 })
})

t.test('a link for POST only is bought by POST, and refunded by GET', async (t) => {
  const product = await startProduct(t, { evm: channelsSection() })
  const url = await product.addLink('posted', '0.01', { methods: ['POST'] })
  const buyer = await newChannelBuyer(product.chains)
  const bought = await read(await buyer.fetch(`${url}?n=1`, { method: 'POST', body: '{"a":1}' }))
  t.equal(bought.status, 200, bought.text)
  t.match(await read(await fetch(url)), { status: 402 })
  const voucher = await voucherFor(buyer, url)
  t.match(await present(url, voucher), { status: 405 }, 'GET buys nothing')
  t.match(await buyer.scheme.refund(url), { success: true, amount: '90000' })
  t.equal(product.api.calls.length, 1)
})

t.test('a link that wallets can call again is not sold by channels, which give no access', async (t) => {
  const product = await startProduct(t, { evm: channelsSection() })
  const url = await product.addLink('again', '0.01', { access: { paidFor: '24h' } })
  const { accepts } = (await (await fetch(url)).json()) as { accepts: { scheme: string }[] }
  t.strictSame([...new Set(accepts.map(({ scheme }) => scheme))], ['exact'])
})

t.test('a link for POST only with a price for each request is refunded by GET too', async (t) => {
  const product = await startProduct(t, { evm: channelsSection() })
  const price = { rules: [{ when: { body: { '/size': 'big' } }, price: '0.02' }], otherwise: '0.01' }
  const url = await product.addLink('priced', price as never, { methods: ['POST'] })
  const buyer = await newChannelBuyer(product.chains)
  const order = { method: 'POST', body: '{"size":"big"}', headers: { 'content-type': 'application/json' } }
  const bought = await read(await buyer.fetch(`${url}?n=1`, order))
  t.match(bought, { status: 200, receipt: { extra: { chargedAmount: '20000' } } }, bought.text)
  t.match(await read(await fetch(url)), { status: 402 })
  t.match(await present(url, await voucherFor(buyer, url)), { status: 405 }, 'GET buys nothing')
  t.match(await buyer.scheme.refund(url), { success: true, amount: '180000' })
  t.equal(product.api.calls.length, 1)
})

t.test(
  'vouchers that the contract would refuse are refused, with the reason that clients know',
  async (t) => {
    const { product, url, buyer, api } = await startSale(t)
    const prefix = 'invalid_batch_settlement_evm_'
    const cases: [reason: string, change: Parameters<typeof signVoucher>[2]][] = [
      ['voucher_signature', { highS: true }],
      ['voucher_signature', { lowV: true }],
      ['voucher_signature', { stranger: true }],
      ['cumulative_amount_mismatch', { max: 30_000n }],
      ['cumulative_amount_mismatch', { max: 19_999n }],
      ['cumulative_amount_mismatch', { max: 10_000n }],
      ['channel_id_mismatch', { channelId: `0x${'12'.repeat(32)}` }],
      ['receiver_mismatch', { config: { receiver: `0x${'34'.repeat(20)}` } }],
      ['receiver_authorizer_mismatch', { config: { receiverAuthorizer: `0x${'34'.repeat(20)}` } }],
      ['token_mismatch', { config: { token: `0x${'34'.repeat(20)}` } }],
      ['withdraw_delay_mismatch', { config: { withdrawDelay: 900 } }],
      ['channel_not_found', { config: { salt: `0x${'34'.repeat(32)}` }, max: 10_000n }],
    ]
    for (const [reason, change] of cases) {
      const voucher = await signVoucher(buyer, url, { max: 20_000n, ...change })
      const refused = await present(`${url}?n=1`, voucher)
      t.match(
        refused,
        { status: 402, body: { error: { reason: `${prefix}${reason}` } } },
        JSON.stringify(Object.keys(change)),
      )
      t.equal(refused.receipt, undefined, 'a 402 with a receipt would not be corrected by the client')
      const offer = JSON.parse(Buffer.from(refused.headers.get('payment-required')!, 'base64').toString())
      t.equal(offer.error, `${prefix}${reason}`)
    }
    const unread = await signVoucher(buyer, url, { max: 20_000n, config: { salt: 'no' } })
    t.match(await present(`${url}?n=1`, unread), {
      status: 400,
      body: { error: { code: 'invalid_payment' } },
    })
    t.equal(api.calls.length, 1)
    t.match(await earnings(product), { calls: 1 })
    t.equal((await buyer.fetch(`${url}?n=2`)).status, 200, 'the channel is unharmed')
    const [open] = product.tollgate.stack.ports.channels!.book.all
    t.equal(open!.channel.id, computeChannelId(open!.channel.config as never, 'eip155:84532'))
  },
)
